package aws

import (
	"regexp"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// roleARN is the form of the ARN of a role in any partition.
var roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+$`)

// ParseCredential reads the JSON object of an account's Secret and checks that it can be used at
// all. secret ("namespace/name") and key say where data comes from; they only appear in errors,
// which are *cloud.CredentialError and never contain a value.
func ParseCredential(secret, key string, data []byte) (v1alpha1.AWSCredential, error) {
	text := cloud.CredentialText{Secret: secret, Key: key, Data: data, Expected: "accessKeyId and accessKeySecret, or roleArn"}
	var c v1alpha1.AWSCredential
	fail := func(field, format string, args ...any) (v1alpha1.AWSCredential, error) {
		return v1alpha1.AWSCredential{}, text.Fail(field, format, args...)
	}
	if err := text.Read(&c); err != nil {
		return v1alpha1.AWSCredential{}, err
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
