package aws

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// CredentialError says what is wrong with the value of a Secret.
type CredentialError struct {
	// Secret is "namespace/name" of the Secret, Key the key in its data, Field the member of the JSON object; Field is empty if
	// the whole value is meant.
	Secret, Key, Field string
	// Problem is what is wrong, in words that do not repeat any secret value.
	Problem string
}

// Error implements error.
func (e *CredentialError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("secret %s, key %q: %s", e.Secret, e.Key, e.Problem)
	}
	return fmt.Sprintf("secret %s, key %q, field %q: %s", e.Secret, e.Key, e.Field, e.Problem)
}

// roleARN is the form of the ARN of a role in any partition.
var roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$`)

// ParseCredential reads the JSON object of an account's Secret and checks that it can be used at all. secret ("namespace/name")
// and key say where data comes from; they only appear in errors, which are *CredentialError and never contain a value.
func ParseCredential(secret, key string, data []byte) (v1alpha1.AWSCredential, error) {
	var c v1alpha1.AWSCredential
	fail := func(field, format string, args ...any) (v1alpha1.AWSCredential, error) {
		return v1alpha1.AWSCredential{}, &CredentialError{Secret: secret, Key: key, Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return fail("", "is empty; expected a JSON object with accessKeyId and accessKeySecret, or roleArn")
	}
	if err := json.Unmarshal(data, &c); err != nil {
		var wrongType *json.UnmarshalTypeError
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &wrongType) && wrongType.Field != "":
			return fail(wrongType.Field, "is a JSON %s; expected a string", wrongType.Value)
		case errors.As(err, &syntax):
			return fail("", "is not JSON: error at byte %d; expected an object with accessKeyId and accessKeySecret, or roleArn", syntax.Offset)
		default:
			return fail("", "is not a JSON object with accessKeyId and accessKeySecret, or roleArn")
		}
	}
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"accessKeyId", &c.AccessKeyID}, {"accessKeySecret", &c.AccessKeySecret}, {"sessionToken", &c.SessionToken},
		{"roleArn", &c.RoleArn}, {"externalId", &c.ExternalID},
	} {
		*f.value = strings.TrimSpace(*f.value)
		if strings.ContainsFunc(*f.value, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return fail(f.name, "contains white space or control characters")
		}
	}
	switch {
	case c.AccessKeyID != "" && c.AccessKeySecret == "":
		return fail("accessKeySecret", "is missing; accessKeyId is set")
	case c.AccessKeyID == "" && c.AccessKeySecret != "":
		return fail("accessKeyId", "is missing; accessKeySecret is set")
	case c.AccessKeyID == "" && c.SessionToken != "":
		return fail("accessKeyId", "is missing; sessionToken is set")
	case c.AccessKeyID == "" && c.RoleArn == "":
		return fail("", "sets neither accessKeyId and accessKeySecret nor roleArn")
	case c.RoleArn != "" && !roleARN.MatchString(c.RoleArn):
		return fail("roleArn", "is not the ARN of a role; expected arn:aws:iam::<12 digits>:role/<name>")
	case c.ExternalID != "" && (len(c.ExternalID) < 2 || len(c.ExternalID) > 1224):
		return fail("externalId", "is %d characters long; expected 2 to 1224", len(c.ExternalID))
	}
	return c, nil
}
