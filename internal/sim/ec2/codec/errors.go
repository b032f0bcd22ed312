package codec

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// APIError is an error as the service answers it.
type APIError struct {
	// Code is the error code, such as InvalidGroup.NotFound.
	Code string
	// Message is the text for a person.
	Message string
	// Status is the HTTP status; 0 means the usual one of the code.
	Status int
}

// Error returns code and message.
func (e *APIError) Error() string { return e.Code + ": " + e.Message }

// HTTPStatus returns the status to answer with.
func (e *APIError) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	switch e.Code {
	case "AuthFailure", "OptInRequired":
		return http.StatusUnauthorized
	case "UnauthorizedOperation", "AccessDenied", "InvalidClientTokenId", "MissingAuthenticationToken",
		"SignatureDoesNotMatch", "ExpiredToken", "RegionDisabledException":
		return http.StatusForbidden
	case "DryRunOperation":
		return http.StatusPreconditionFailed
	case "InternalError":
		return http.StatusInternalServerError
	case "RequestLimitExceeded", "Unavailable", "ServiceUnavailable":
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// Fail is an error with a code of the service.
func Fail(code, format string, args ...any) *APIError {
	return &APIError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Missing is the error of a request without a parameter that it needs.
func Missing(name string) *APIError {
	return Fail("MissingParameter", "The request must contain the parameter %s", name)
}

// InvalidValue is the error of a parameter with a wrong value.
func InvalidValue(format string, args ...any) *APIError {
	return Fail("InvalidParameterValue", format, args...)
}

// RequestError turns what the wire package says about a request into the service's answer.
func RequestError(err error) error {
	if param := (*wire.ParamError)(nil); errors.As(err, &param) {
		return InvalidValue("%s", param.Error())
	}
	if filter := (*wire.FilterError)(nil); errors.As(err, &filter) {
		if filter.Limit {
			return Fail("FilterLimitExceeded", "%s", filter.Error())
		}
		return InvalidValue("%s", filter.Error())
	}
	if errors.Is(err, wire.ErrToken) {
		return Fail("InvalidNextToken", "The specified NextToken is not valid")
	}
	return err
}
