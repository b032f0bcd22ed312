package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/nephele-io/nephele/internal/cloud"
)

func TestParseCredential(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, data, want string // want is the error; empty means none
	}{
		{"keys", `{"accessKeyId":"AKIA","accessKeySecret":"s"}`, ""},
		{"keys with line ends", "{\"accessKeyId\":\"AKIA\\n\",\"accessKeySecret\":\"s\\n\"}\n", ""},
		{"temporary keys", `{"accessKeyId":"ASIA","accessKeySecret":"s","sessionToken":"t"}`, ""},
		{"role", `{"roleArn":"arn:aws:iam::123456789012:role/path/nephele","externalId":"42"}`, ""},
		{"role with keys in China", `{"accessKeyId":"A","accessKeySecret":"s","roleArn":"arn:aws-cn:iam::123456789012:role/n"}`, ""},
		{"unknown members", `{"accessKeyId":"A","accessKeySecret":"s","comment":1}`, ""},
		{"nothing", "", `secret ns/s, key "credentials": is empty; expected a JSON object with accessKeyId and accessKeySecret, or roleArn`},
		{"not JSON", `accessKeyId: A`, `secret ns/s, key "credentials": is not JSON: error at byte 1; expected an object with accessKeyId and accessKeySecret, or roleArn`},
		{"a list", `[]`, `secret ns/s, key "credentials": is not a JSON object with accessKeyId and accessKeySecret, or roleArn`},
		{"a number", `{"accessKeyId":7,"accessKeySecret":"s"}`, `secret ns/s, key "credentials", field "accessKeyId": is a JSON number; expected a string`},
		{"empty object", `{}`, `secret ns/s, key "credentials": sets neither accessKeyId and accessKeySecret nor roleArn`},
		{"no secret key", `{"accessKeyId":"AKIA"}`, `secret ns/s, key "credentials", field "accessKeySecret": is missing; accessKeyId is set`},
		{"no key id", `{"accessKeySecret":"topsecret"}`, `secret ns/s, key "credentials", field "accessKeyId": is missing; accessKeySecret is set`},
		{"token alone", `{"sessionToken":"t","roleArn":"arn:aws:iam::123456789012:role/n"}`, `secret ns/s, key "credentials", field "accessKeyId": is missing; sessionToken is set`},
		{"two lines", `{"accessKeyId":"A B","accessKeySecret":"s"}`, `secret ns/s, key "credentials", field "accessKeyId": contains white space or control characters`},
		{"a user's ARN", `{"roleArn":"arn:aws:iam::123456789012:user/n"}`, `secret ns/s, key "credentials", field "roleArn": is not the ARN of a role; expected arn:aws:iam::<12 digits>:role/<name>`},
		{"short external id", `{"roleArn":"arn:aws:iam::123456789012:role/n","externalId":"x"}`, `secret ns/s, key "credentials", field "externalId": is 1 characters long; expected 2 to 1224`},
	} {
		got, err := ParseCredential("ns/s", "credentials", []byte(c.data))
		if fmt.Sprint(err) != orNil(c.want) {
			t.Errorf("%s: %v; want %s", c.name, err, c.want)
		}
		if err == nil && strings.ContainsAny(got.AccessKeyID+got.AccessKeySecret, " \n") {
			t.Errorf("%s: white space left in %+v", c.name, got)
		}
		if err != nil && strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: the error repeats the secret", c.name)
		}
	}
}

func orNil(want string) string {
	if want == "" {
		return "<nil>"
	}
	return want
}

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
		{&credentialsError{errors.New("no identity")}, cloud.Auth, ""},
		{&credentialsError{apiError("AccessDenied", 403, "")}, cloud.Auth, "AccessDenied"},
		{&credentialsError{apiError("Throttling", 400, "")}, cloud.Throttled, "Throttling"},
		{&credentialsError{context.DeadlineExceeded}, cloud.Unavailable, ""},
	} {
		err := classify("Call", c.err, now)
		var e *cloud.Error
		if !errors.As(err, &e) || e.Class != c.class || e.Code != c.code || e.Call != "Call" {
			t.Errorf("%v: classified %#v; want class %s, code %q", c.err, e, c.class, c.code)
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%v: the cause is lost", c.err)
		}
		if again := classify("Other", err, now); again != err {
			t.Errorf("%v: classified twice", c.err)
		}
		unknown := c.code == "OptInRequired" || strings.Contains(c.err.Error(), "eu-nowhere-1")
		if errors.Is(err, cloud.ErrRegionUnknown) != unknown {
			t.Errorf("%v: unknown region: %t; want %t", c.err, !unknown, unknown)
		}
	}
	if classify("Call", nil, now) != nil {
		t.Error("no error became one")
	}
	for value, want := range map[string]time.Duration{
		"7": 7 * time.Second, now.Add(time.Minute).Format(http.TimeFormat): time.Minute, "-3": 0, "soon": 0, "": 0,
	} {
		var e *cloud.Error
		if errors.As(classify("Call", apiError("RequestLimitExceeded", 503, value), now), &e); e.RetryAfter != want {
			t.Errorf("Retry-After %q: %s; want %s", value, e.RetryAfter, want)
		}
	}
}

func TestNewRefusesBadConfigurations(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]Config{
		"no region is given": {},
		`endpoint "ftp://x" is not an http or https URL with a host`:     {Region: "r", Endpoint: "ftp://x"},
		`endpoint "localhost:1" is not an http or https URL with a host`: {Region: "r", Endpoint: "localhost:1"},
	} {
		if _, err := New(cfg); fmt.Sprint(err) != want {
			t.Errorf("%+v: %v; want %s", cfg, err, want)
		}
	}
}
