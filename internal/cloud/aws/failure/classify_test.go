package failure

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/nephele-io/nephele/internal/cloud"
)

func apiError(code string, status int, retryAfter string) error {
	header := http.Header{}
	if retryAfter != "" {
		header.Set("Retry-After", retryAfter)
	}
	return &smithy.OperationError{ServiceID: "EC2", OperationName: "X", Err: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status, Header: header}},
		Err:      &smithy.GenericAPIError{Code: code, Message: "the cloud's words"},
	}}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		err   error
		class cloud.Class
		code  string
	}{
		{apiError("InvalidGroup.NotFound", 400, ""), cloud.NotFound, "InvalidGroup.NotFound"},
		{apiError("InvalidNetworkInterfaceID.NotFound", 400, ""), cloud.NotFound, "InvalidNetworkInterfaceID.NotFound"},
		{apiError("InvalidVpcID.NotFound", 400, ""), cloud.NotFound, "InvalidVpcID.NotFound"},
		{apiError("InvalidPermission.NotFound", 400, ""), cloud.Conflict, "InvalidPermission.NotFound"},
		{apiError("InvalidPermission.Duplicate", 400, ""), cloud.Conflict, "InvalidPermission.Duplicate"},
		{apiError("DependencyViolation", 400, ""), cloud.Conflict, "DependencyViolation"},
		{apiError("CannotDelete", 400, ""), cloud.Conflict, "CannotDelete"},
		{apiError("RulesPerSecurityGroupLimitExceeded", 400, ""), cloud.Quota, "RulesPerSecurityGroupLimitExceeded"},
		{apiError("SecurityGroupsPerInterfaceLimitExceeded", 400, ""), cloud.Quota, "SecurityGroupsPerInterfaceLimitExceeded"},
		{apiError("SomeNewLimitExceeded", 400, ""), cloud.Quota, "SomeNewLimitExceeded"},
		{apiError("RequestLimitExceeded", 503, ""), cloud.Throttled, "RequestLimitExceeded"},
		{apiError("ThrottlingSomehow", 400, ""), cloud.Throttled, "ThrottlingSomehow"},
		{apiError("AuthFailure", 401, ""), cloud.Auth, "AuthFailure"},
		{apiError("UnauthorizedOperation", 403, ""), cloud.Auth, "UnauthorizedOperation"},
		{apiError("RequestExpired", 400, ""), cloud.Auth, "RequestExpired"},
		{apiError("OptInRequired", 401, ""), cloud.Auth, "OptInRequired"},
		{apiError("SomethingNew", 403, ""), cloud.Auth, "SomethingNew"},
		{apiError("InternalError", 500, ""), cloud.Unavailable, "InternalError"},
		{apiError("SomethingNew", 502, ""), cloud.Unavailable, "SomethingNew"},
		{apiError("InvalidParameterValue", 400, ""), cloud.Terminal, "InvalidParameterValue"},
		{context.Canceled, cloud.Unavailable, ""},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, cloud.Unavailable, ""},
		{&net.DNSError{Name: "ec2.eu-nowhere-1.amazonaws.com", IsNotFound: true}, cloud.Terminal, ""},
		{&net.DNSError{Name: "gateway.example.org", IsNotFound: true}, cloud.Unavailable, ""},
		{&CredentialsError{errors.New("no identity")}, cloud.Auth, ""},
		{&CredentialsError{apiError("AccessDenied", 403, "")}, cloud.Auth, "AccessDenied"},
		{&CredentialsError{apiError("Throttling", 400, "")}, cloud.Throttled, "Throttling"},
		{&CredentialsError{context.DeadlineExceeded}, cloud.Unavailable, ""},
	} {
		err := Classify("Call", c.err, now)
		var e *cloud.Error
		if !errors.As(err, &e) || e.Class != c.class || e.Code != c.code || e.Call != "Call" {
			t.Errorf("%v: classified %#v; want class %s, code %q", c.err, e, c.class, c.code)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%v: the cause is lost", c.err)
		}
		if again := Classify("Other", err, now); again != err {
			t.Errorf("%v: classified twice", c.err)
		}
		unknown := c.code == "OptInRequired" || strings.Contains(c.err.Error(), "eu-nowhere-1")
		if errors.Is(err, cloud.ErrRegionUnknown) != unknown {
			t.Errorf("%v: unknown region: %t; want %t", c.err, !unknown, unknown)
		}
	}
	if Classify("Call", nil, now) != nil {
		t.Error("no error became one")
	}
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, now.Add(time.Minute).Format(http.TimeFormat): time.Minute, "-3": 0, "soon": 0, "": 0,
	} {
		var e *cloud.Error
		if errors.As(Classify("Call", apiError("RequestLimitExceeded", 503, value), now), &e); e.RetryAfter != want {
			t.Errorf("Retry-After %q: %s; want %s", value, e.RetryAfter, want)
		}
	}
}
