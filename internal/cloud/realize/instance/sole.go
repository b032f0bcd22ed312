package instance

import (
	"fmt"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
)

// Sole says whether this instance is the only one that writes to an account.
type Sole struct {
	// State is empty while the account is not watched.
	State tenure.State
	// Present says whether there is a network that the cluster claims.
	Present bool
	// Epoch is that of this instance, and Other that of the one that keeps it from writing,
	// with a network that carries his mark.
	Epoch, Other, Region, Network string
	// Unmarked is true if there is a network that the cloud does not let this instance mark.
	Unmarked bool
	// Succeeded is the epoch of an instance whose account was taken over because its marks
	// stood still.
	Succeeded string
	// Asked is View.TakeOver.
	Asked string
}

// Text says it for people.
func (s Sole) Text(account string) string {
	where := ""
	if s.Network != "" {
		where = fmt.Sprintf(" (tag %s of %s in %s)", cloud.TagInstance, s.Network, s.Region)
	}
	switch {
	case s.State == tenure.Stopped:
		out := fmt.Sprintf("another instance of this controller with the same cluster id, %s, writes to this "+
			"account%s; this one, %s, writes nothing any more. That is what a copied data directory or a restored "+
			"backup looks like. Stop one of the two; to let this one go on: nephele take-over %s", s.Other, where, s.Epoch, account)
		if s.Asked != "" && s.Asked != s.Other {
			out += fmt.Sprintf(" (it is told to take over from %s, which is not the one that writes)", cloud.Words(s.Asked))
		}
		return out
	case s.State == tenure.Waiting:
		return fmt.Sprintf("the instance %s may still be at work%s: nothing is written until it has not been heard of "+
			"for long enough", s.Other, where)
	case s.Unmarked:
		return "the cloud does not let this instance mark the networks that it claims with the tag " + cloud.TagInstance +
			": policies are enforced, but another instance with the same cluster id would not notice this one"
	case s.Succeeded != "":
		return fmt.Sprintf("this instance, %s, is the only one that writes; it has taken over from %s, of which nothing was "+
			"seen any more", s.Epoch, s.Succeeded)
	}
	return fmt.Sprintf("this instance, %s, is the only one that writes", s.Epoch)
}
