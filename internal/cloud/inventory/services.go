package inventory

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// Services returns the native service or interface of every ExternalEntity of the account that
// represents one. The map must not be changed.
func (i *Inventory) Services(key string) map[types.NamespacedName]selection.ServiceRef {
	a := i.lookup(key)
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.services
}

// judgeServices decides the condition ServicesRead; false if nothing is asked about services.
func (p *pass) judgeServices() (verdict, bool) {
	if p.problem != nil || len(selection.KindsAsked(p.selectors)) == 0 {
		return verdict{}, false
	}
	var failing []string
	reason := ""
	snapshots := p.account.snapshots()
	for _, snap := range snapshots {
		for _, f := range snap.ServiceFaults {
			why := reasonOf(f.Err)
			if cloud.ClassOf(f.Err) == cloud.Auth {
				why = v1alpha1.ReasonNotPermitted
			}
			if reason == "" || why == v1alpha1.ReasonNotPermitted {
				reason = why
			}
			failing = append(failing, fmt.Sprintf("%s: %s cannot be read, which takes the right %s: %v", snap.Region, f.API, f.Right, f.Err))
		}
	}
	switch {
	case len(failing) > 0:
		return no(reason, "these services are known as they were when they could last be read, and others by their interfaces only: "+strings.Join(failing, "; ")), true
	case len(snapshots) == 0:
		return pending("no region was read yet"), true
	}
	return ok("the services that selectors ask for are read"), true
}
