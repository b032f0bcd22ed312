package aws

import (
	"fmt"
	"strings"
	"testing"
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
