package failure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/nephele-io/nephele/internal/cloud"
)

// Error codes of EC2 and STS that more than the classification needs to know.
const (
	CodeGroupDuplicate      = "InvalidGroup.Duplicate"
	CodePermissionDuplicate = "InvalidPermission.Duplicate"
	CodePermissionNotFound  = "InvalidPermission.NotFound"
	codeOptInRequired       = "OptInRequired"
	CodeAuthFailure         = "AuthFailure"
	CodeUnauthorized        = "UnauthorizedOperation"
	CodeRequestExpired      = "RequestExpired"
	// CodeOwnerChanged is our own: the credentials belong to another account than before.
	CodeOwnerChanged = "AccountChanged"
)

// classOfCode is the class of the codes whose class their form does not tell; see classOfForm for
// the others.
func classOfCode(code string) (cloud.Class, bool) {
	switch code {
	case "InvalidPermission.NotFound", "InvalidPermission.Duplicate", "InvalidGroup.Duplicate", "DependencyViolation",
		"CannotDelete", "IncorrectState", "IncorrectInstanceState", "ConcurrentMutationLimitExceeded",
		"PrefixListVersionMismatch", "InvalidGroup.InUse", "RouteAlreadyExists", "ResourceInUse", "OperationNotPermitted":
		return cloud.Conflict, true
	case "LoadBalancerNotFound", "DBInstanceNotFound", "DBClusterNotFoundFault", "CacheClusterNotFound", "ReplicationGroupNotFoundFault", "FileSystemNotFound",
		"MountTargetNotFound", "InvalidGroup.NotFound", "InvalidInstanceID", "InvalidID", "InvalidVpcID", "NoSuchEntity":
		return cloud.NotFound, true
	case "RulesPerSecurityGroupLimitExceeded", "SecurityGroupsPerInterfaceLimitExceeded",
		"SecurityGroupsPerInstanceLimitExceeded", "SecurityGroupLimitExceeded", "TagLimitExceeded", "FilterLimitExceeded",
		"VpcLimitExceeded", "ResourceLimitExceeded":
		return cloud.Quota, true
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"RequestThrottledException", "EC2ThrottledException", "TooManyRequestsException", "BandwidthLimitExceeded",
		"ProvisionedThroughputExceededException", "TransactionInProgressException", "SlowDown", "PriorRequestNotComplete":
		return cloud.Throttled, true
	case CodeAuthFailure, CodeUnauthorized, "AccessDenied", "AccessDeniedException", "InvalidClientTokenId",
		"SignatureDoesNotMatch", "MissingAuthenticationToken", "MissingAuthenticationTokenException", CodeRequestExpired,
		"ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "IncompleteSignature", "Blocked", "PendingVerification",
		codeOptInRequired, "RegionDisabledException", "InvalidIdentityToken", "IDPRejectedClaim", "UnrecognizedClientException":
		return cloud.Auth, true
	case "InternalError", "InternalFailure", "InternalServerError", "ServiceUnavailable", "Unavailable", "RequestTimeout",
		"RequestTimeoutException", "InsufficientInstanceCapacity", "IDPCommunicationError":
		return cloud.Unavailable, true
	}
	return "", false
}

// classOfForm is the class of a code that is not listed, by the cloud's habits of naming and by the
// HTTP status (0 if unknown).
func classOfForm(code string, status int) cloud.Class {
	switch {
	case strings.HasSuffix(code, ".NotFound"), strings.HasSuffix(code, ".Unknown"):
		return cloud.NotFound
	case strings.HasSuffix(code, ".Duplicate"), strings.HasSuffix(code, ".InUse"):
		return cloud.Conflict
	case strings.HasSuffix(code, "LimitExceeded"):
		return cloud.Quota
	case strings.HasPrefix(code, "Throttl"), status == http.StatusTooManyRequests:
		return cloud.Throttled
	case status >= 500:
		return cloud.Unavailable
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return cloud.Auth
	default:
		return cloud.Terminal
	}
}

// scopedToValidRegion is what the security token service says, among others, to a request that is
// signed for a region that it does not know; the code is that of a wrong signature.
const scopedToValidRegion = "should be scoped to a valid region"

// CredentialsError marks a failure to obtain credentials, so that it is not taken for one of the
// call that needed them.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return "no usable credentials: " + e.Err.Error() }
func (e *CredentialsError) Unwrap() error { return e.Err }

// Classify turns an error of the SDK into the port's error. call is the cloud's name of the call,
// now the time for Retry-After given as a date. It returns nil for nil and leaves an error that is
// classified already alone.
func Classify(call string, err error, now time.Time) error {
	if err == nil {
		return nil
	}
	var done *cloud.Error
	if errors.As(err, &done) {
		return err
	}
	e := &cloud.Error{Call: call, Err: plain(err)}
	status := 0
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.Response != nil && answer.Response.Response != nil {
		status = answer.HTTPStatusCode()
		e.RetryAfter = retryAfter(answer.Response.Header.Get("Retry-After"), now)
	}
	var api smithy.APIError
	var noCredentials *CredentialsError
	var dns *net.DNSError
	var notGranted *cloud.NotGrantedError
	var bound *cloud.BoundError
	switch {
	case errors.As(err, &notGranted):
		e.Class = cloud.Auth
	case errors.As(err, &bound), errors.Is(err, cloud.ErrRegionUnknown):
		e.Class = cloud.Terminal
	case errors.As(err, &api):
		if understood(api) {
			e.Code = api.ErrorCode()
		}
		class, known := classOfCode(e.Code)
		if !known {
			class = classOfForm(e.Code, status)
		}
		e.Class = class
		e.Denied = e.Code == CodeUnauthorized || e.Code == "AccessDenied" || e.Code == "AccessDeniedException"
		if e.Code == codeOptInRequired || e.Code == "RegionDisabledException" || strings.Contains(api.ErrorMessage(), scopedToValidRegion) {
			e.Err = fmt.Errorf("%w: %w", cloud.ErrRegionUnknown, e.Err)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Class = cloud.Unavailable
	case errors.As(err, &dns) && dns.IsNotFound && strings.HasSuffix(strings.TrimSuffix(dns.Name, "."), ".amazonaws.com"):
		// The name of an endpoint is made of the region's name; one that does not resolve is a
		// region that is not there.
		e.Class, e.Err = cloud.Terminal, fmt.Errorf("%w: %w", cloud.ErrRegionUnknown, e.Err)
	case errors.As(err, &noCredentials):
		e.Class = cloud.Auth
	case status != 0:
		e.Class = classOfForm("", status)
		if status < 400 {
			e.Class = cloud.Unavailable
		}
	default:
		e.Class = unanswered(err)
	}
	return e
}

// unanswered is the class of an error without an answer: the request was refused by the SDK before
// it was sent, or it was sent and nothing usable came back.
func unanswered(err error) cloud.Class {
	var invalid smithy.InvalidParamsError
	var serialization *smithy.SerializationError
	if errors.As(err, &invalid) || errors.As(err, &serialization) {
		return cloud.Terminal
	}
	return cloud.Unavailable
}

// plain is the error for people: what the cloud said, or why nothing could be asked, without the
// SDK's layers around it. The whole error stays reachable.
func plain(err error) error {
	var api smithy.APIError
	var noCredentials *CredentialsError
	var unsent *smithyhttp.RequestSendError
	var notGranted *cloud.NotGrantedError
	var bound *cloud.BoundError
	var canceled *awssdk.RequestCanceledError
	var answered *answerError
	msg := ""
	switch {
	case errors.As(err, &notGranted):
		msg = notGranted.Error()
	case errors.As(err, &bound):
		msg = bound.Error()
	case errors.As(err, &noCredentials):
		for inner := noCredentials; errors.As(inner.Err, &inner); {
			noCredentials = inner // an assumed role needs credentials of its own
		}
		msg = "no usable credentials: " + plain(noCredentials.Err).Error()
	case errors.As(err, &answered) && (!errors.As(err, &api) || !worded(api)):
		msg = answered.told()
	case errors.As(err, &api) && worded(api):
		msg = api.ErrorMessage()
		if answered != nil {
			msg += " [" + answered.asked() + "]"
		}
		// Apart, because it is another one each time: a comparison of texts cuts it off.
		var answer interface{ ServiceRequestID() string }
		if errors.As(err, &answer) && answer.ServiceRequestID() != "" {
			msg += " [request " + answer.ServiceRequestID() + "]"
		}
	case errors.As(err, &canceled):
		msg = canceled.Err.Error()
	case errors.As(err, &unsent):
		msg = unsent.Err.Error()
	default:
		return err
	}
	return &said{msg: msg, err: err}
}

// said is an error with the words of the cloud.
type said struct {
	msg string
	err error
}

func (s *said) Error() string { return s.msg }
func (s *said) Unwrap() error { return s.err }

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if n, err := strconv.Atoi(value); err == nil {
		return max(0, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// CodeOf returns the cloud's code of a classified error; empty if there is none.
func CodeOf(err error) string {
	var e *cloud.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Refuse is the error of an op that is wrong in itself; nothing was called.
func Refuse(op cloud.Op, format string, args ...any) error {
	return &cloud.Error{Class: cloud.Terminal, Call: string(op.Kind), Err: fmt.Errorf(format, args...)}
}
