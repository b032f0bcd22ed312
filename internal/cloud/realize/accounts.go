package realize

import (
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance"
)

// Accounts is what the realizer needs to know of the cloud accounts; the inventory provides it. All
// methods are cheap and may be called at any time.
type Accounts interface {
	// Keys lists the accounts, "namespace/name", including those that are being deleted.
	Keys() []string
	// Account returns what is known of an account now; false if there is no such account (any
	// more).
	Account(key string) (Account, bool)
	// Subscribe makes changed be called with an account's key whenever something about the
	// account may have changed: a new snapshot, other credentials, other selected VMs,
	// deletion. It may be called more often than needed; changed must not block.
	Subscribe(changed func(key string)) (cancel func())
	// Observed hands over what the caller has read with this provider after all that it has
	// changed, whole or brought up to date, so that it need not be read again. False if it is
	// not taken, for example because something newer is known; then the caller has to say what
	// it has changed.
	Observed(key string, provider cloud.Provider, snapshots []*cloud.Snapshot) bool
	// Trigger asks for a new observation of the account soon.
	Trigger(key string)
	// Touched asks for a new reading of these objects, by region, soon: the caller has changed
	// them and nothing else.
	Touched(key string, ids map[string][]string)
}

// VMMode is the mode of a VM and the object that sets it.
type VMMode struct {
	Mode   plan.Mode
	Reason string
}

// Account is what is known of one account at one moment.
type Account struct {
	// Key is "namespace/name" of the CloudProviderAccount.
	Key string
	// EnforcerKey is the key whose computed objects the account enforces.
	EnforcerKey string
	Provider    cloud.Provider
	// Lowerer makes rules of its cloud; nil means Options.Lowerer.
	Lowerer plan.Lowerer
	// Regions are all regions of the account, observed or not.
	Regions []string
	// Snapshots has the last whole observation of every region that has been observed since
	// start; other regions are left alone.
	Snapshots map[string]*cloud.Snapshot
	// Pending names the regions whose snapshots are older than what was last asked for by
	// Trigger or Touched.
	Pending map[string]bool
	// Unread says of the regions whose last reading failed why it did.
	Unread map[string]error
	// Entities maps the ExternalEntity objects of the account to VMs.
	Entities map[plan.EntityRef]plan.VMRef
	// Shared maps the ExternalEntity objects of other accounts to the networks of their VMs
	// that this account sees too.
	Shared map[plan.EntityRef]string
	// Services maps the ExternalEntity objects of the account that represent native services to
	// these services.
	Services map[plan.EntityRef]plan.VMRef
	// Modes names the VMs that are not simply enforced.
	Modes map[plan.VMRef]VMMode
	// Agents names the VMs that selectors hand to the agents in them.
	Agents map[plan.VMRef]VMAgent
	// Aliases are further entities of these VMs, which agents enforce.
	Aliases map[plan.EntityRef]plan.VMRef
	// MaxPerWave bounds how many VMs and groups in use are changed before the account is
	// observed again; 0 means no bound.
	MaxPerWave int
	// Propagation is how long a step waits for those that it relies on; see wire.Wire.
	Propagation time.Duration
	// Brake bounds what is done at once without a confirmation, and Confirm is the hash of what
	// somebody has confirmed; nil means no bound.
	Brake   *plan.Brake
	Confirm string
	// Force is the hash of a blocked plan that a user has forced, and ForcedBy that user, if known.
	Force, ForcedBy string
	// Failsafe is always allowed on VMs with policies.
	Failsafe []plan.FailsafeFlow
	// Dependents says what becomes of interfaces that are not ours and that depend on those
	// that are guarded.
	Dependents plan.DependentsRule
	// Confirmed are the former groups of interfaces as the account's owner says, by interface,
	// for where the record of them is not believed.
	Confirmed map[string][]string
	// ConfirmedProblem says what cannot be read of what he says; empty if all can.
	ConfirmedProblem string
	// TakeOver is the epoch of the instance that this one is to replace in the account; empty if
	// there is none.
	TakeOver string
	// Releasing is true while the account is being deleted: everything it holds in the cloud is
	// to be given back.
	Releasing bool
}

// lowerer makes rules of the cloud of an account.
func (r *Realizer) lowerer(a Account) plan.Lowerer {
	if a.Lowerer != nil {
		return a.Lowerer
	}
	return r.Lowerer
}

// view is what of the account a presence has to know.
func (a Account) view() instance.View {
	return instance.View{Provider: a.Provider, Snapshots: a.Snapshots, TakeOver: a.TakeOver, OnlyPlanned: a.onlyPlanned()}
}

// onlyPlanned reports whether every VM of the account is in mode plan, which promises that nothing
// is written.
func (a Account) onlyPlanned() bool {
	for _, vm := range a.Entities {
		if a.Modes[vm].Mode != plan.Planned {
			return false
		}
	}
	return len(a.Entities) > 0 && !a.Releasing
}
