// Package grants holds the manifests of access control: the admission policies that check the
// rights of authors, and roles.
//
// They are written by hand; this package promises no more than to hand them out as they are. It is
// safe for concurrent use.
package grants

import (
	"embed"
	"io/fs"
)

//go:embed accounts.yaml force.yaml selectors.yaml break-glass.yaml deletion.yaml tiers.yaml set.yaml history.yaml personas.yaml users.yaml
var files embed.FS

// FS returns the manifests as a file system: files with one or several documents each.
func FS() fs.FS { return files }

// Policies are the names of the ValidatingAdmissionPolicies among them, each of which has a binding
// of the same name.
func Policies() []string {
	return []string{"nephele-accounts", "nephele-force", "nephele-selectors", "nephele-break-glass", "nephele-tiers"}
}

// DeletionPolicies are the names of those that keep accounts, selectors and their namespaces from
// being deleted while VMs are guarded through them, and of the one that warns where that is not
// refused. Each has a binding of the same name.
func DeletionPolicies() []string {
	return []string{"nephele-deletion", "nephele-deletion-accounts", "nephele-deletion-selectors", "nephele-deletion-warning"}
}
