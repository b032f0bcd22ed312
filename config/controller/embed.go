// Package controller holds the rights that the controller needs in a cluster, as the manifests
// beside it give them.
//
// They are written by hand; this package promises no more than to hand them out as they are. It is
// safe for concurrent use.
package controller

import _ "embed"

//go:embed role.yaml
var role []byte

// Role are the manifests of the controller's roles.
func Role() []byte { return append([]byte(nil), role...) }
