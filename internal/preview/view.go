package preview

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// View lists what the store holds for a key.
type View struct {
	Policies        []*v1beta2.NetworkPolicy
	AddressGroups   []*v1beta2.AddressGroup
	AppliedToGroups []*v1beta2.AppliedToGroup
}

func ViewOf(s *watchstore.Store, key string) (View, error) {
	var v View
	for _, r := range watchstore.Resources() {
		objects, _, err := s.List(r, key)
		if err != nil {
			return View{}, err
		}
		for _, o := range objects {
			v.add(o)
		}
	}
	return v, nil
}

func (v *View) add(o runtime.Object) {
	switch o := o.(type) {
	case *v1beta2.NetworkPolicy:
		v.Policies = append(v.Policies, o)
	case *v1beta2.AddressGroup:
		v.AddressGroups = append(v.AddressGroups, o)
	case *v1beta2.AppliedToGroup:
		v.AppliedToGroups = append(v.AppliedToGroups, o)
	}
}
