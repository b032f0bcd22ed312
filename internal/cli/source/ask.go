package source

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/review"
)

// ReviewPage is how many rows are asked for at a time.
const ReviewPage = 5000

// Ask has the controller answer a review, which knows the clouds without anybody's keys. It reports
// false if there is no controller that does, or none that may be asked: then the answer is worked
// out from what the person may read himself.
func (f ClusterFlags) Ask(cmd *cobra.Command, question client.Object, seen *v1alpha1.Seen) (answered bool, err error) {
	c, err := f.ClientOrFiles()
	if err != nil {
		return false, err
	}
	err = c.Create(cmd.Context(), question)
	undiscovered := (*apiutil.ErrResourceDiscoveryFailed)(nil)
	switch {
	case err == nil:
		f.tellSeen(cmd, seen)
		return true, nil
	case apierrors.IsForbidden(err):
		terminal.Notes(cmd, []string{fmt.Sprintf("worked out here, from what you may read: the controller may not be asked: %v", err)})
		return false, nil
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err), errors.As(err, &undiscovered):
		return false, nil
	}
	if apierrors.IsBadRequest(err) {
		return false, aboutQuestion(cmd, err)
	}
	return false, fmt.Errorf("the controller does not answer; --local works the answer out here: %w", err)
}

// questionField is how the controller begins what is wrong with a question.
var questionField = regexp.MustCompile(`^spec\.([A-Za-z]+)`)

// aboutQuestion says what the controller finds wrong with a question in the words of the command
// line: by the flag that the field came from.
func aboutQuestion(cmd *cobra.Command, err error) error {
	text := err.Error()
	m := questionField.FindStringSubmatch(text)
	if m == nil {
		return err
	}
	flag := strings.ToLower(upperCase.ReplaceAllString(m[1], "-$0"))
	if cmd.Flags().Lookup(flag) == nil {
		return err
	}
	return errors.New("--" + flag + strings.TrimPrefix(text, m[0]))
}

var upperCase = regexp.MustCompile("[A-Z]")

// tellSeen says what the answer leaves out.
func (ClusterFlags) tellSeen(cmd *cobra.Command, seen *v1alpha1.Seen) {
	var out []string
	if seen.Limited {
		out = append(out, "what you may not see is left out, and its addresses are like any others: you may not list the network policies of every Namespace and of the cluster")
	}
	for _, r := range seen.Unread {
		out = append(out, "not known now, only what statuses say is told: "+r)
	}
	terminal.Notes(cmd, out)
}

// AskReach asks which endpoints reach which others, page by page.
func (f ClusterFlags) AskReach(cmd *cobra.Command, spec v1alpha1.ReachReviewSpec) (rows []v1alpha1.ReachRow, answered bool, err error) {
	for spec.Page = 1; ; spec.Page++ {
		question := &v1alpha1.ReachReview{Spec: spec}
		answered, err := f.Ask(cmd, question, &question.Status.Seen)
		if !answered || err != nil {
			return nil, answered, err
		}
		rows = append(rows, question.Status.Flows...)
		if len(question.Status.Flows) == 0 || len(rows) >= int(question.Status.Total) {
			return rows, true, nil
		}
	}
}

// AboutFlag names the flag that a part of a question came from.
func AboutFlag(err error) error {
	if wrong := (*explain.QuestionError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("--%w", err)
	}
	if wrong := (*review.WrongError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		return errors.New("--" + wrong.Field + wrong.Text)
	}
	return err
}
