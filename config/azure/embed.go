// Package azure holds the custom role that the controller needs in an Azure subscription, as the
// file beside it gives it.
//
// It is written by hand; this package promises no more than to hand it out as it is. It is safe for
// concurrent use.
package azure

import _ "embed"

//go:embed role.json
var role []byte

// Role is the definition of the role, in the form that "az role definition create" takes.
func Role() []byte { return append([]byte(nil), role...) }
