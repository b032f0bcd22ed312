package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
)

const (
	// settingsInterval is how often settings of the kernel are read.
	settingsInterval = time.Second
	// jumpLeast is by how much the clock of the host must have jumped for that to be looked into,
	// and skewMost how far it may be from the controller's.
	jumpLeast = 5 * time.Second
	skewMost  = time.Minute
	// connectionsFull is from how many percent of the connections that conntrack can follow on the
	// agent tells that they are many.
	connectionsFull = 95
)

// Settings are what is set in the kernel and bears on enforcement; kernel.Settings are some.
type Settings interface {
	// Forwards are the families of which the host passes packets on between others.
	Forwards() []string
	// Connections are how many conntrack follows and can follow, 0 where that is not known.
	Connections() (now, most int)
}

// settings is when they were read last.
type settings struct {
	read time.Time
	// of is what they were for Pods.
	of string
}

// readSettings looks whether settings of the kernel have changed, and the clock of the host.
func (a *Agent) readSettings() {
	now := a.options.Clock.Now()
	since := now.Sub(a.settings.read)
	if since >= 0 && since < settingsInterval {
		return
	}
	// The clock of the wall may have been set meanwhile; that which only goes on was not.
	if jumped := now.Round(0).Sub(a.settings.read.Round(0)) - since; !a.settings.read.IsZero() && jumped.Abs() > jumpLeast {
		a.options.Log.Info("The clock of the host was set", "by", jumped.String())
		a.telling.at = time.Time{} // how it differs from the controller's shows when that is told something
	}
	a.settings.read = now
	if a.options.Pods != nil && a.options.Pods.Settings != nil {
		if of := a.options.Pods.Settings(); of != a.settings.of {
			a.settings.of = of
			a.options.Pods.Refresh()
		}
	}
	var skew time.Duration
	if a.options.Skew != nil {
		skew = a.options.Skew()
	}
	var forwards []string
	var full string
	if a.options.Settings != nil {
		if forwards = a.options.Settings.Forwards(); a.options.Forwarded && !slices.Contains(a.options.Table.Lacks(), kernel.FeatureKinds) {
			forwards = nil // it is judged
		}
		if n, most := a.options.Settings.Connections(); most > 0 && n >= most*connectionsFull/100 {
			full = fmt.Sprintf("conntrack follows %d connections and can follow %d (net.netfilter.nf_conntrack_max); packets of those beyond are dropped", n, most)
		}
	}
	a.board.change(func(s *Status) {
		if !slices.Equal(s.Host.Forwards, forwards) {
			a.options.Log.Info("Whether the host routes has changed", "families", forwards)
		}
		s.Host.Forwards, s.Host.ConnectionsFull, s.Host.ClockError = forwards, full, ""
		if skew.Abs() > skewMost {
			s.Host.ClockError = fmt.Sprintf("it is %s from the controller's; certificates, releases and the ages of addresses depend on it", skew.Round(time.Second))
		}
	})
}

// Partial says why policies are not enforced as a whole although the agent is well; empty if they
// are.
func (s *Status) Partial() string {
	if s.Host.Evaded == 0 {
		return ""
	}
	text := fmt.Sprintf("policies are not enforced as a whole: in %d cases one is evaded", s.Host.Evaded)
	if s.Pods != nil && len(s.Pods.NotEnforceable) > 0 {
		text += ", first on Pod " + s.Pods.NotEnforceable[0]
	}
	return text
}

// told is what of a status the controller is to hear of soon: how the agent stands, and what is
// wrong, without numbers that change all the time.
func (s *Status) told() string {
	words := []string{string(s.State), fmt.Sprint(s.isolates(), s.Server.Connected, s.Host.Evaded > 0, s.Host.Forwards), s.Kernel.Error}
	for _, t := range s.Troubles() {
		if t.Text != "" {
			words = append(words, t.With)
		}
	}
	return strings.Join(append(words, s.Host.filters...), "\n")
}
