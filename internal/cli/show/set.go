package show

import (
	"fmt"
	"strings"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
)

// SetExplanation shows an answer in halves.
func SetExplanation(s *v1alpha1.FlowAnswer) string {
	var b strings.Builder
	packet := s.Protocol
	if s.Port != 0 {
		packet += fmt.Sprintf(" %d", s.Port)
	}
	fmt.Fprintf(&b, "%s -> %s, %s: %s\n", terminal.Printable(s.From.Title), terminal.Printable(s.To.Title), packet, s.Verdict)
	if s.Reason != "" {
		fmt.Fprintf(&b, "  %s\n", s.Reason)
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	for i := range s.Halves {
		h := &s.Halves[i]
		at, side := h.From, strings.ToLower(h.Side)
		if h.Side == "Ingress" {
			at = h.To
		}
		if h.Decision == nil {
			fmt.Fprintf(&b, "  %-7s %s: not known: %s\n", side, orNobody(h.Cluster), h.Why)
			continue
		}
		writeDecision(&b, h.Decision, "  ", fmt.Sprintf("%-7s %s:", side, h.Cluster), at)
		for _, n := range h.Notes {
			fmt.Fprintf(&b, "          note: %s\n", n)
		}
	}
	return terminal.PrintableLines(b.String())
}

func orNobody(cluster string) string {
	if cluster == "" {
		return "nobody"
	}
	return cluster
}
