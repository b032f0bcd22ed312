package azure

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

var guid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// tenantForm is a GUID or a domain.
var tenantForm = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z.-]{0,251}[0-9A-Za-z])?$`)

// ParseCredential reads the JSON object of an account's Secret and checks that it can be used at all. secret ("namespace/name")
// and key say where data comes from; they only appear in errors, which are *CredentialError and never contain a value.
func ParseCredential(secret, key string, data []byte) (v1alpha1.AzureCredential, error) {
	const expected = "expected a JSON object with subscriptionId, tenantId, clientId and clientKey, clientCertificate or sessionToken"
	var c v1alpha1.AzureCredential
	fail := func(field, format string, args ...any) (v1alpha1.AzureCredential, error) {
		return v1alpha1.AzureCredential{}, &CredentialError{Secret: secret, Key: key, Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return fail("", "is empty; "+expected)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		var wrongType *json.UnmarshalTypeError
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &wrongType) && wrongType.Field != "":
			return fail(wrongType.Field, "is a JSON %s; expected a string", wrongType.Value)
		case errors.As(err, &syntax):
			return fail("", "is not JSON: error at byte %d; "+expected, syntax.Offset)
		default:
			return fail("", "is not what it should be; "+expected)
		}
	}
	for _, f := range []struct {
		name  string
		value *string
	}{
		{"subscriptionId", &c.SubscriptionID}, {"tenantId", &c.TenantID}, {"clientId", &c.ClientID}, {"clientKey", &c.ClientKey}, {"sessionToken", &c.SessionToken},
	} {
		*f.value = strings.TrimSpace(*f.value)
		if strings.ContainsFunc(*f.value, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return fail(f.name, "contains white space or control characters")
		}
	}
	switch {
	case c.SubscriptionID == "":
		return fail("subscriptionId", "is missing")
	case !guid.MatchString(c.SubscriptionID):
		return fail("subscriptionId", "is not a GUID")
	case c.TenantID != "" && !tenantForm.MatchString(c.TenantID):
		return fail("tenantId", "is neither a GUID nor a domain")
	case c.ClientID != "" && !guid.MatchString(c.ClientID):
		return fail("clientId", "is not a GUID")
	}
	if c.ClientKey != "" || c.ClientCertificate != "" || c.SessionToken != "" {
		switch {
		case c.TenantID == "":
			return fail("tenantId", "is missing")
		case c.ClientID == "":
			return fail("clientId", "is missing")
		}
	}
	return c, nil
}
