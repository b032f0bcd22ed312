package azure

import (
	"regexp"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

var guid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// tenantForm is a GUID or a domain.
var tenantForm = regexp.MustCompile(`^[0-9A-Za-z]([0-9A-Za-z.-]{0,251}[0-9A-Za-z])?$`)

// ParseCredential reads the JSON object of an account's Secret and checks that it can be used at
// all. secret ("namespace/name") and key say where data comes from; they only appear in errors,
// which are *cloud.CredentialError and never contain a value.
func ParseCredential(secret, key string, data []byte) (v1alpha1.AzureCredential, error) {
	text := cloud.CredentialText{Secret: secret, Key: key, Data: data, Expected: "subscriptionId, tenantId, clientId and clientKey, clientCertificate or sessionToken"}
	var c v1alpha1.AzureCredential
	fail := func(field, format string, args ...any) (v1alpha1.AzureCredential, error) {
		return v1alpha1.AzureCredential{}, text.Fail(field, format, args...)
	}
	if err := text.Read(&c, "clientCertificate"); err != nil {
		return v1alpha1.AzureCredential{}, err
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
