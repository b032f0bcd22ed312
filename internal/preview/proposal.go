package preview

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/expect"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/review"
)

// The bounds of what a PlanReview brings.
const (
	// MaxManifests is the size of its manifests in bytes.
	MaxManifests = 512 << 10
	// MaxObjects is the number of objects in them, and of those to delete.
	MaxObjects = 500
	// mostErrors is how many errors are reported.
	mostErrors = 50
)

// manifestsName represents the file of manifests that came in a review.
const manifestsName = "manifests"

// Rights say what somebody may do. The zero value may do everything.
type Rights struct {
	// May reports whether he may do something to an object; nil means that it need not be asked,
	// because the answer tells him nothing that he may not read.
	May func(verb, group, resource, namespace, name string) bool
}

// takenKind returns the kind that may be planned with: one that a person applies and that has a
// part in the answer. Pods, Nodes and Secrets are none of them.
func takenKind(group, kind string) (kinds.Kind, bool) {
	k, known := kinds.Find(group, kind)
	return k, known && (k.Is(kinds.Planned) || k.Is(kinds.PlannedWhole))
}

// Taken reports whether a PlanReview takes objects of a kind, or leaves them out without harm.
func Taken(group, kind string) bool {
	_, ok := takenKind(group, kind)
	return ok || idle(group, kind)
}

// idle reports whether objects of a kind have no part in any plan.
func idle(group, kind string) bool {
	return group == expect.GroupVersion().Group && kind == expect.Kind || group == cloudv1alpha1.GroupVersion().Group && kind == "Vpc"
}

// Proposal is what a PlanReview proposes.
type Proposal struct {
	over *Inputs
	gone []analysis.ObjectReference
}

// Propose reads what a PlanReview brings. The policies may be in these tiers besides their own.
// What is wrong with the manifests is in the errors, and told for all documents at once; an error
// about the question itself is a review.WrongError.
func Propose(spec analysis.PlanReviewSpec, tiers []*v1beta1.Tier, rights Rights) (*Proposal, []analysis.ManifestError, error) {
	if n := len(spec.Manifests); n > MaxManifests {
		return nil, nil, &review.WrongError{Field: "manifests", Text: fmt.Sprintf(": they have %d bytes, want at most %d", n, MaxManifests)}
	}
	if n := len(spec.Delete); n > MaxObjects {
		return nil, nil, &review.WrongError{Field: "delete", Text: fmt.Sprintf(": %d objects, want at most %d", n, MaxObjects)}
	}
	if spec.Account != "" && strings.Count(spec.Account, "/") != 1 {
		return nil, nil, &review.WrongError{Field: "account", Text: fmt.Sprintf(" %q: want NAMESPACE/NAME of a CloudProviderAccount", shortened(spec.Account))}
	}
	set := &manifest.Set{}
	if strings.TrimSpace(spec.Manifests) != "" {
		var err error
		set, err = manifest.Parse(manifestsName, []byte(spec.Manifests), MaxObjects)
		var bad *manifest.InputError
		if errors.As(err, &bad) {
			return nil, unreadable(bad), nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	var errs []analysis.ManifestError
	set.Documents = slices.DeleteFunc(set.Documents, func(d *manifest.Document) bool {
		if idle(d.Group, d.Kind) {
			set.Notes = append(set.Notes, d.Name()+" has no part in a plan and is left out")
			return true
		}
		if e := rights.refuse([]string{"create", "patch"}, refOf(d)); e != nil {
			e.Document, e.Line = int32(d.Number), int32(d.Line)
			errs = append(errs, *e)
			return true
		}
		return false
	})
	for _, ref := range spec.Delete {
		if e := rights.refuse([]string{"delete"}, ref); e != nil {
			errs = append(errs, *e)
		}
	}
	over := inputsOf(set, tiers)
	for _, r := range over.Refused {
		errs = append(errs, analysis.ManifestError{
			Reason: analysis.ErrorInvalid, Code: int32(r.Code), Document: int32(r.Number), Line: int32(r.Line),
			Object: &analysis.ObjectReference{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}, Field: r.Field, Message: r.Text,
		})
	}
	slices.SortStableFunc(errs, func(a, b analysis.ManifestError) int { return int(a.Document) - int(b.Document) })
	return &Proposal{over, spec.Delete}, errs[:min(len(errs), mostErrors)], nil
}

func refOf(d *manifest.Document) analysis.ObjectReference {
	return analysis.ObjectReference{Group: d.Group, Kind: d.Kind, Namespace: d.Object.GetNamespace(), Name: d.Object.GetName()}
}

// refuse says why an object is not planned with; nil if it is. Whether there is such an object is
// not told.
func (r Rights) refuse(verbs []string, ref analysis.ObjectReference) *analysis.ManifestError {
	kind, ok := takenKind(ref.Group, ref.Kind)
	named := func(reason string, code int32, message string) *analysis.ManifestError {
		return &analysis.ManifestError{Reason: reason, Code: code, Object: &ref, Message: message}
	}
	switch {
	case !ok:
		return named(analysis.ErrorKindNotTaken, http.StatusUnprocessableEntity,
			fmt.Sprintf("objects of the kind %s are not planned with by the controller", shortened(ref.Kind)))
	case r.May == nil:
		return nil
	case kind.Is(kinds.PlannedWhole):
		return named(analysis.ErrorKindNotTaken, http.StatusForbidden,
			fmt.Sprintf("a %s is planned with only for users who may list the network policies of every Namespace and of the cluster, and the accounts", ref.Kind))
	}
	for _, verb := range verbs {
		name := ref.Name
		if verb == "create" {
			name = ""
		}
		if !r.May(verb, ref.Group, kind.Resource, ref.Namespace, name) {
			return named(analysis.ErrorForbidden, http.StatusForbidden, fmt.Sprintf("you may not %s %s", verb, strings.TrimSpace(kind.Resource+in(ref.Namespace))))
		}
	}
	return nil
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in Namespace " + namespace
}

// shortened keeps a text of the caller from filling the answer.
func shortened(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// unreadable tells what cannot be read as what it says it is.
func unreadable(bad *manifest.InputError) []analysis.ManifestError {
	var out []analysis.ManifestError
	for _, p := range bad.Problems[:min(len(bad.Problems), mostErrors)] {
		e := analysis.ManifestError{Reason: analysis.ErrorUnreadable, Code: http.StatusBadRequest, Document: int32(p.Number), Line: int32(p.Line), Field: p.Field, Message: p.Text}
		if p.TooMuch {
			e.Reason, e.Code = analysis.ErrorTooMuch, http.StatusRequestEntityTooLarge
		}
		if p.Object != nil {
			ref := refOf(p.Object)
			e.Object = &ref
		}
		out = append(out, e)
	}
	return out
}

// apply puts a proposal into the inputs. It returns errors for objects to delete that there are
// not.
func (in *Inputs) apply(p *Proposal) (errs []analysis.ManifestError) {
	in.Overlay(p.over)
	in.Gone = p.gone
	for _, ref := range p.gone {
		if !in.remove(ref) {
			errs = append(errs, analysis.ManifestError{Reason: analysis.ErrorInvalid, Code: http.StatusNotFound, Object: &ref, Message: "there is no such object to delete"})
		}
	}
	return errs
}

// remove takes an object away; false if there is none.
func (in *Inputs) remove(ref analysis.ObjectReference) bool {
	k, ok := takenKind(ref.Group, ref.Kind)
	return ok && in.Objects.Remove(k, ref.Namespace, ref.Name)
}
