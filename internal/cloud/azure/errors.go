package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/nephele-io/nephele/internal/cloud"
)

// classOf is the class of an error by its code, or else by its status.
func classOf(code string, status int) cloud.Class {
	switch code {
	case "TooManyRequests", "RetryableError", "RetryableErrorDueToAnotherOperation", "RateLimiting", "SubscriptionRequestsThrottled", "OperationNotAllowed":
		return cloud.Throttled
	case "AnotherOperationInProgress", "PreconditionFailed", "CanceledAndSupersededDueToAnotherOperation", "InUseNetworkSecurityGroupCannotBeDeleted",
		"ReferencedResourceNotProvisioned", "NicInUse":
		return cloud.Conflict
	case "InvalidResourceReference":
		return cloud.NotFound
	case "ScopeLocked", "RequestDisallowedByPolicy", "ReadOnlyDisabledSubscription", "MissingSubscriptionRegistration":
		return cloud.Auth
	case "SubscriptionNotFound", "InvalidSubscriptionId", "InvalidAuthenticationTokenTenant":
		return cloud.Auth
	}
	switch {
	case strings.HasSuffix(code, "LimitReached"), strings.HasSuffix(code, "QuotaExceeded"), code == "InvalidTagsCount":
		return cloud.Quota
	case strings.HasPrefix(code, "InUse"):
		return cloud.Conflict
	case status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return cloud.Auth
	case status == http.StatusNotFound:
		return cloud.NotFound
	case status == http.StatusConflict, status == http.StatusPreconditionFailed:
		return cloud.Conflict
	case status >= 500, status < 400: // an operation that was accepted and has failed answers 200
		return cloud.Unavailable
	}
	return cloud.Terminal
}

// denied are codes of calls that good credentials may not make.
func denied(code string, status int) bool {
	return status == http.StatusForbidden || code == "ScopeLocked" || code == "ReadOnlyDisabledSubscription" || code == "MissingSubscriptionRegistration"
}

// classify turns an error of the SDK into the port's error. call is the cloud's name of the
// operation. It returns nil for nil and leaves an error that is classified already alone.
func classify(call string, err error, now time.Time) error {
	if err == nil {
		return nil
	}
	var done *cloud.Error
	if errors.As(err, &done) {
		return err
	}
	e := &cloud.Error{Call: call, Err: err}
	var refused *azcore.ResponseError
	var login *azidentity.AuthenticationFailedError
	var notGranted *cloud.NotGrantedError
	var bound *cloud.BoundError
	switch {
	case errors.As(err, &notGranted):
		e.Class, e.Err = cloud.Auth, &said{notGranted.Error(), err}
	case errors.As(err, &bound):
		e.Class, e.Err = cloud.Terminal, &said{bound.Error(), err}
	case errors.As(err, &login):
		e.Class, e.Err = cloud.Auth, &said{"no usable credentials: " + loginWords(login), err}
		if r := login.RawResponse; r == nil && !strings.Contains(login.Error(), "AADSTS") || r != nil && r.StatusCode >= 500 {
			e.Class = cloud.Unavailable
		}
	case errors.As(err, &refused):
		e.Code, e.Class, e.Denied = refused.ErrorCode, classOf(refused.ErrorCode, refused.StatusCode), denied(refused.ErrorCode, refused.StatusCode)
		e.Err = &said{words(refused), err}
		if refused.RawResponse != nil {
			e.RetryAfter = retryAfter(refused.RawResponse.Header.Get("Retry-After"), now)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Class = cloud.Unavailable
	default:
		e.Class = cloud.Unavailable
	}
	return e
}

// said is an error with the words of the cloud.
type said struct {
	msg string
	err error
}

func (s *said) Error() string { return s.msg }
func (s *said) Unwrap() error { return s.err }

// words are what the cloud said, without the SDK's layers around it.
func words(e *azcore.ResponseError) string {
	var doc struct {
		Error struct {
			Message string `json:"message"`
			Details []struct {
				Message string `json:"message"`
			} `json:"details"`
		} `json:"error"`
	}
	if raw := body(e.RawResponse); json.Unmarshal(raw, &doc) == nil && doc.Error.Message != "" {
		text := doc.Error.Message
		if len(doc.Error.Details) > 0 && doc.Error.Details[0].Message != "" {
			text += " " + doc.Error.Details[0].Message
		}
		return cloud.Words(text)
	}
	return fmt.Sprintf("HTTP status %d", e.StatusCode)
}

func loginWords(e *azidentity.AuthenticationFailedError) string {
	var doc struct {
		Description string `json:"error_description"`
	}
	if raw := body(e.RawResponse); json.Unmarshal(raw, &doc) == nil && doc.Description != "" {
		return cloud.Words(doc.Description)
	}
	// What the SDK says has the request and the answer below a line.
	text, _, _ := strings.Cut(e.Error(), "-----")
	return cloud.Words(text)
}

// body reads what the SDK has kept of an answer.
func body(r *http.Response) []byte {
	if r == nil || r.Body == nil {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, errorBytes))
	if err != nil {
		return nil // the status has to do
	}
	return raw
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(value); err == nil {
		return max(0, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
