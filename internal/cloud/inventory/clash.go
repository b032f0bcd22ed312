package inventory

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// contested reports whether VMs that have changed have names that others have, too. Then they
// cannot be looked at by themselves.
func (s *syncer) contested(v selection.View, last *basis, changed map[string]bool) bool {
	if len(last.tally.Clashes) > 0 {
		return true
	}
	named := map[string]string{}
	for id := range changed {
		name := cloud.ObjectName(id)
		if named[name] != "" {
			return true
		}
		named[name] = id
	}
	for key, vm := range s.vms {
		if id := named[key.Name]; id != "" && vm.Status.CloudId != "" && vm.Status.CloudId != id {
			return true
		}
	}
	return false
}

// untold are all objects that should be there and are not as they should, with what is to be said
// about them.
func untold(taken map[types.NamespacedName]string, clashes map[types.NamespacedName]selection.Clash) map[types.NamespacedName]string {
	if len(clashes) == 0 {
		return taken
	}
	out := make(map[types.NamespacedName]string, len(taken)+len(clashes))
	for key, c := range clashes {
		out[key] = c.Message(key)
	}
	maps.Copy(out, taken)
	return out
}
