package plancmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/cli/flowscmd"
	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/preview"
)

// ask has the controller of the cluster plan, which has read the clouds. It returns nil if there is
// none that does, or none that may be asked, or if it does not take what the manifests hold, of
// which it is sent nothing then: the plan is worked out here.
func (f *planFlags) ask(cmd *cobra.Command) (*v1alpha1.PlanAnswer, error) {
	if f.snapshot != "" || f.cluster.Local {
		return nil, nil
	}
	set := &manifest.Set{}
	if len(f.files) > 0 {
		stdin, err := f.input(cmd)
		if err != nil {
			return nil, err
		}
		if set, err = manifest.Load(f.files, stdin); err != nil {
			return nil, err
		}
	}
	text, why, err := sendable(set)
	if err != nil {
		return nil, err
	}
	if why != "" {
		terminal.Notes(cmd, []string{"worked out here, from what you may read: " + why})
		return nil, nil
	}
	question := &v1alpha1.PlanReview{Spec: v1alpha1.PlanReviewSpec{Manifests: text, Staged: f.staged.With}}
	if f.flows != "" {
		since, err := flowscmd.ParseSince("--flows", f.flows, time.Now())
		if err != nil {
			return nil, err
		}
		question.Spec.FlowsSince = &metav1.MicroTime{Time: since}
	}
	answered, err := f.cluster.Ask(cmd, question, &question.Status.Seen)
	if !answered || err != nil {
		return nil, err
	}
	if refused := refusalsOf(question.Status.Errors, set); len(refused) > 0 {
		return nil, terminal.Refused(cmd, refused)
	}
	if question.Status.Limited && f.flows == "" {
		return nil, errors.New("the controller shows plans of clouds only to users who may list the network policies of every Namespace and of the cluster, and the accounts")
	}
	answer := &question.Status.PlanAnswer
	if account := unknownTo(answer, set); account != "" {
		terminal.Notes(cmd, []string{"worked out here, from what you may read: the controller has not read all of account " + account + " as it stands in the manifests"})
		return nil, nil
	}
	terminal.Notes(cmd, slices.Concat(set.Notes, question.Status.Notes))
	tellCut(cmd, answer)
	return answer, nil
}

// unknownTo is an account of the manifests of which the controller has not read everything: it
// reads those that are stored.
func unknownTo(answer *v1alpha1.PlanAnswer, set *manifest.Set) string {
	for _, a := range answer.Accounts {
		given := slices.ContainsFunc(set.Documents, func(d *manifest.Document) bool {
			return d.Kind == "CloudProviderAccount" && d.Object.GetNamespace()+"/"+d.Object.GetName() == a.Account
		})
		if given && (a.Error != "" || len(a.Unread) > 0) {
			return a.Account
		}
	}
	return ""
}

// input is the standard input; what is read from it can be read again.
func (f *planFlags) input(cmd *cobra.Command) (io.Reader, error) {
	if !slices.Contains(f.files, "-") {
		return cmd.InOrStdin(), nil
	}
	if f.stdin == nil {
		content, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return nil, fmt.Errorf("reading the standard input: %w", err)
		}
		f.stdin = content
	}
	return bytes.NewReader(f.stdin), nil
}

// sendable writes manifests as one text, unless the controller does not take them; then it says
// why.
func sendable(set *manifest.Set) (text, why string, err error) {
	var out bytes.Buffer
	for _, d := range set.Documents {
		if !preview.Taken(d.Group, d.Kind) {
			return "", fmt.Sprintf("the controller plans with no %s, and is not sent it (%s)", d.Kind, d.Position), nil
		}
		raw, err := d.YAML()
		if err != nil {
			return "", "", err
		}
		if out.Len() > 0 {
			out.WriteString("---\n")
		}
		out.Write(raw)
	}
	if out.Len() > preview.MaxManifests || len(set.Documents) > preview.MaxObjects {
		return "", fmt.Sprintf("the controller takes %d objects in %d bytes at most", preview.MaxObjects, preview.MaxManifests), nil
	}
	return out.String(), "", nil
}

// refusalsOf are the errors of the controller, with the places in the files.
func refusalsOf(errs []v1alpha1.ManifestError, set *manifest.Set) []manifest.Refusal {
	var out []manifest.Refusal
	for _, e := range errs {
		r := manifest.Refusal{Code: int(e.Code), Text: e.Message, Field: e.Field}
		if e.Object != nil {
			r.Group, r.Kind, r.Namespace, r.Name = e.Object.Group, e.Object.Kind, e.Object.Namespace, e.Object.Name
		}
		if n := int(e.Document); n > 0 && n <= len(set.Documents) {
			r.Position = set.Documents[n-1].At(e.Field)
		}
		out = append(out, r)
	}
	return out
}

// tellCut says of which lists only the beginning was told.
func tellCut(cmd *cobra.Command, a *v1alpha1.PlanAnswer) {
	for _, x := range a.Accounts {
		var parts []string
		for name, n := range x.More {
			parts = append(parts, fmt.Sprintf("%d of %s", n, name))
		}
		if len(parts) > 0 {
			slices.Sort(parts)
			terminal.Notes(cmd, []string{fmt.Sprintf("account %s: too much to tell; left out are %s (--local tells all)", x.Account, strings.Join(parts, ", "))})
		}
	}
}
