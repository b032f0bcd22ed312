package explaincmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/show"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/clusterset/hub/questions"
	"github.com/nephele-io/nephele/internal/review"
)

// ofSet reports whether the question is about clusters of the set.
func (f *explainFlags) ofSet() bool {
	return questions.Asks(&v1alpha1.FlowReviewSpec{From: f.from, To: f.to})
}

// explainSet asks the controller of the hub, which asks the clusters of both ends.
func explainSet(cmd *cobra.Command, f explainFlags) error {
	if len(f.files) > 0 || f.clouds.snapshot != "" || f.cluster.Local {
		return errors.New("a question about clusters of the set is answered by the controller of their hub: leave out --filename, --snapshot and --local")
	}
	question := &v1alpha1.FlowReview{Spec: review.SpecOf(f.question(cmd.Flags()))}
	answered, err := f.cluster.Ask(cmd, question, &question.Status.Seen)
	if err != nil {
		return err
	}
	if !answered {
		return errors.New("the controller of the hub does not answer, and nobody else knows of its clusters")
	}
	if f.output != "" {
		err = terminal.PrintValue(cmd.OutOrStdout(), f.output, &question.Status)
	} else {
		fmt.Fprint(terminal.WindowOf(cmd.OutOrStdout()), show.SetExplanation(&question.Status.FlowAnswer))
	}
	if err == nil && question.Status.Verdict != "Allow" {
		err = terminal.ErrNo
	}
	return err
}
