package ec2

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

func fail(code, format string, args ...any) *APIError {
	return &APIError{Code: code, Message: fmt.Sprintf(format, args...)}
}

func missing(name string) *APIError {
	return fail("MissingParameter", "The request must contain the parameter %s", name)
}

func invalidValue(format string, args ...any) *APIError {
	return fail("InvalidParameterValue", format, args...)
}

// requestError turns what the wire package says about a request into the service's answer.
func requestError(err error) error {
	if param := (*wire.ParamError)(nil); errors.As(err, &param) {
		return invalidValue("%s", param.Error())
	}
	if filter := (*wire.FilterError)(nil); errors.As(err, &filter) {
		if filter.Limit {
			return fail("FilterLimitExceeded", "%s", filter.Error())
		}
		return invalidValue("%s", filter.Error())
	}
	if errors.Is(err, wire.ErrToken) {
		return fail("InvalidNextToken", "The specified NextToken is not valid")
	}
	return err
}
