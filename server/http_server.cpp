#include "server/http_types.h"
