package cloud

import "errors"

// ErrRegionUnknown is wrapped by the errors of Observe and Apply when the region does not exist or
// is not enabled for the account.
var ErrRegionUnknown = errors.New("the region does not exist or is not enabled for the account")

// AccountKey is the account of a CloudProviderAccount as it stands in Scope.Account and in the tag
// TagAccount: "namespace/name".
func AccountKey(namespace, name string) string { return namespace + "/" + name }

// EnforcerKey names the enforcer of an account: spec.externalNode of the account's ExternalEntity
// objects, and the key under which the computed policies are watched.
func EnforcerKey(namespace, name string) string { return EnforcerPrefix + AccountKey(namespace, name) }

// EnforcerPrefix is what the enforcer keys of accounts begin with.
const EnforcerPrefix = "cloud/"
