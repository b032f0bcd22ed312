package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/clusterset/hub"
	"github.com/nephele-io/nephele/internal/review"
)

// ofSet reports whether the question is about clusters of the set.
func (f *explainFlags) ofSet() bool {
	return hub.Asks(&v1alpha1.FlowReviewSpec{From: f.from, To: f.to})
}

// explainSet asks the controller of the hub, which asks the clusters of both ends.
func explainSet(cmd *cobra.Command, f explainFlags) error {
	if len(f.files) > 0 || f.clouds.snapshot != "" || f.cluster.local {
		return errors.New("a question about clusters of the set is answered by the controller of their hub: leave out --filename, --snapshot and --local")
	}
	question := &v1alpha1.FlowReview{Spec: review.SpecOf(f.question(cmd.Flags()))}
	answered, err := f.cluster.ask(cmd, question, &question.Status.Seen)
	if err != nil {
		return err
	}
	if !answered {
		return errors.New("the controller of the hub does not answer, and nobody else knows of its clusters")
	}
	if f.output != "" {
		err = printValue(cmd.OutOrStdout(), f.output, &question.Status)
	} else {
		fmt.Fprint(windowOf(cmd.OutOrStdout()), setText(&question.Status.FlowAnswer))
	}
	if err == nil && question.Status.Verdict != "Allow" {
		err = terminal.ErrNo
	}
	return err
}

// setText shows an answer in halves.
func setText(s *v1alpha1.FlowAnswer) string {
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
