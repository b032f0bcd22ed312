package inventory

import (
	"slices"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// narrow makes the account's provider read what the selectors need. An account that is being
// deleted is read whole: nothing of ours may be overlooked. The caller holds the account's lock.
func (p *pass) narrow(a *account) {
	networks, narrow := selection.NetworksOf(p.selectors)
	kinds := selection.KindsAsked(p.selectors)
	n, can := a.whole.(cloud.Narrower)
	if !narrow || !can || p.deleting() {
		networks = nil
	}
	if p.deleting() {
		kinds = nil
	}
	if a.whole == nil {
		a.provider, a.narrow, a.shown = nil, nil, nil
		return
	}
	if a.provider != nil && (a.narrow == nil) == (networks == nil) && slices.Equal(a.narrow, networks) && slices.Equal(a.shown, kinds) {
		return
	}
	a.provider, a.narrow, a.shown = a.whole, networks, kinds
	if networks != nil {
		a.provider = n.Narrow(networks)
	}
	if shower, shows := a.provider.(cloud.ServiceShower); shows {
		a.provider = shower.Show(kinds)
	}
}
