package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan/render"
)

// A warningReason says what a warning of the command plan is about. --tolerate takes them, and they
// stand in the JSON.
type warningReason string

// The reasons.
const (
	// warnNoSuchAccount: a selector names an account that does not exist.
	warnNoSuchAccount warningReason = "NoSuchAccount"
	// warnSelectsNoVM: a selector, or an entry of one, selects no VM.
	warnSelectsNoVM warningReason = "SelectsNoVM"
	// warnSelectsNobody: a policy applies to nobody.
	warnSelectsNobody warningReason = "SelectsNobody"
	// warnPeerNobody: a rule names peers of which there are none.
	warnPeerNobody warningReason = "PeerNobody"
	// warnNotGranted: an account does not let somebody select or release.
	warnNotGranted warningReason = "NotGranted"
	// warnNameTaken: a VM is not imported, because another one has the object of its name.
	warnNameTaken warningReason = "NameTaken"
	// warnHostBits: a block of addresses is written with bits that do not count.
	warnHostBits warningReason = "HostBits"
	// warnNoSuchGroup and warnNoSuchTier: a policy names what does not exist.
	warnNoSuchGroup warningReason = "NoSuchGroup"
	warnNoSuchTier  warningReason = "NoSuchTier"
	// warnClosesAccess: the plan closes ssh or remote desktop to a VM that has it now.
	warnClosesAccess warningReason = "ClosesAccess"
	// warnNeverMatches: rules before it leave a rule nothing.
	warnNeverMatches warningReason = "NeverMatches"
	// warnTakesPrecedence: a rule takes from another policy's rule what that decides about
	// somebody.
	warnTakesPrecedence warningReason = "TakesPrecedence"
	// warnNotExact: the cloud does not do exactly as a policy says; what it does is not wider.
	warnNotExact warningReason = "NotExact"
	// warnSubnetDenies: the filter of a subnet denies what a policy allows.
	warnSubnetDenies warningReason = "SubnetDenies"
	// warnManyClusters: a snapshot shows VPCs of several clusters, and nobody says which is meant.
	warnManyClusters warningReason = "ManyClusters"
)

// warningReasons are all of them.
var warningReasons = []warningReason{
	warnClosesAccess,
	warnHostBits,
	warnManyClusters,
	warnNameTaken,
	warnNeverMatches,
	warnNoSuchAccount,
	warnNoSuchGroup,
	warnNoSuchTier,
	warnNotExact,
	warnNotGranted,
	warnPeerNobody,
	warnSelectsNoVM,
	warnSelectsNobody,
	warnSubnetDenies,
	warnTakesPrecedence,
}

// planWarning is what looks like a mistake.
type planWarning struct {
	reason  warningReason
	message string
}

// strictness says which warnings make the command fail.
type strictness struct {
	strict   bool
	tolerate []string
}

func (s *strictness) register(flags *pflag.FlagSet) {
	var names []string
	for _, r := range warningReasons {
		names = append(names, string(r))
	}
	flags.BoolVar(&s.strict, "strict", false, "exit with 2 if there is any warning")
	flags.StringSliceVar(&s.tolerate, "tolerate", nil, "with --strict: reasons of warnings that do not count, of "+strings.Join(names, ", "))
}

// check refuses what is not understood.
func (s *strictness) check() error {
	if len(s.tolerate) > 0 && !s.strict {
		return fmt.Errorf("--tolerate says what --strict does not count: give both")
	}
	for i, name := range s.tolerate {
		k := slices.IndexFunc(warningReasons, func(r warningReason) bool { return strings.EqualFold(string(r), name) })
		if k < 0 {
			return fmt.Errorf("--tolerate %q: want reasons of %v", name, warningReasons)
		}
		s.tolerate[i] = string(warningReasons[k])
	}
	return nil
}

// outcome is the error for what counts; nil if nothing does.
func (s *strictness) outcome(a *planAnswer) error {
	if !s.strict {
		return nil
	}
	counted, tolerated := map[string]int{}, 0
	count := func(reason string) {
		if slices.Contains(s.tolerate, reason) {
			tolerated++
			return
		}
		counted[reason]++
	}
	for _, r := range a.WarningReasons {
		count(string(r))
	}
	for _, x := range a.Accounts {
		for _, w := range x.Warnings {
			count(cmp.Or(w.Reason, string(warnNotExact)))
		}
	}
	total := 0
	var reasons []string
	for _, r := range warningReasons {
		if n := counted[string(r)]; n > 0 {
			total += n
			reasons = append(reasons, fmt.Sprintf("%d %s", n, r))
		}
	}
	if total == 0 {
		return nil
	}
	text := "--strict: " + cloud.Counted(total, "warning") + " (" + strings.Join(reasons, ", ") + ")"
	if tolerated > 0 {
		text += fmt.Sprintf("; %d more tolerated", tolerated)
	}
	return fmt.Errorf("%s", text)
}

// tagsOnly reports whether the plans change something, but nothing that decides about packets.
func tagsOnly(plans ...render.Document) bool {
	steps := 0
	for _, p := range plans {
		steps += len(p.Steps)
		for _, s := range p.Steps {
			if s.Kind != cloud.OpTag && s.Kind != cloud.OpUntag {
				return false
			}
		}
	}
	return steps > 0
}
