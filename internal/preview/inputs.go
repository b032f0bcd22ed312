package preview

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/apiserver/webhook"
	"github.com/nephele-io/nephele/internal/explain"
	"github.com/nephele-io/nephele/internal/explain/input"
	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/policy"
)

// Inputs is what policies are computed from, with where it stands and what is to be said about it.
type Inputs struct {
	Objects input.Objects
	// Secrets holds the secrets of manifests only; a cluster's are read one by one, where an
	// account needs one.
	Secrets []*corev1.Secret

	// Documents finds where an object of a manifest stands, by objectKey.
	Documents map[string]*manifest.Document
	// Gone are the objects that are planned to be deleted.
	Gone    []analysis.ObjectReference
	Refused []manifest.Refusal
	Notes   []string
	// Gaps say what a snapshot does not tell.
	Gaps []string
	// Claimants are the clusters that the VPCs of a snapshot belong to.
	Claimants []string
	// Warnings are about what looks like a mistake.
	Warnings []Warning
}

func objectKey(group, kind, namespace, name string) string {
	return group + " " + kind + " " + namespace + "/" + name
}

// LoadInputs reads manifests that are all there is.
func LoadInputs(files []string, stdin io.Reader) (*Inputs, error) {
	in, err := ReadManifests(files, stdin, nil)
	if err != nil {
		return nil, err
	}
	in.supposeNamespaces()
	return in, nil
}

// ReadManifests reads manifests. Their policies may be in these tiers besides their own and the
// built-in ones.
func ReadManifests(files []string, stdin io.Reader, given []*v1beta1.Tier) (*Inputs, error) {
	set, err := manifest.Load(files, stdin)
	if err != nil {
		return nil, err
	}
	return inputsOf(set, given), nil
}

// inputsOf takes what admission accepts of manifests.
func inputsOf(set *manifest.Set, given []*v1beta1.Tier) *Inputs {
	in := &Inputs{Objects: input.Objects{Partial: true}, Documents: map[string]*manifest.Document{}, Notes: set.Notes}
	admits := newAdmission(set, given)
	for _, d := range set.Documents {
		if d.Object.GetUID() == "" {
			d.Object.SetUID(OfflineUID(d.Group, d.Kind, d.Object))
		}
		in.Documents[objectKey(d.Group, d.Kind, d.Object.GetNamespace(), d.Object.GetName())] = d
		if r := admits.refusal(d); r != nil {
			in.Refused = append(in.Refused, *r)
			continue
		}
		in.add(d.Object)
	}
	return in
}

// OfflineUID is a uid for an object that was never stored. It depends on the name only.
func OfflineUID(group, kind string, o metav1.Object) types.UID {
	return types.UID(uuid.NewSHA1(uuid.NameSpaceURL, []byte(objectKey(group, kind, o.GetNamespace(), o.GetName()))).String())
}

func (in *Inputs) add(object manifest.Object) {
	if o, ok := object.(*corev1.Secret); ok {
		in.Secrets = append(in.Secrets, o)
		return
	}
	in.Objects.Add(object)
}

// supposeNamespaces adds the Namespaces that objects are in but no manifest defines: they must
// exist where the manifests are applied. Their labels are not known.
func (in *Inputs) supposeNamespaces() {
	known := map[string]bool{}
	for _, n := range in.Objects.Namespaces {
		known[n.Name] = true
	}
	for _, d := range in.Documents {
		ns := d.Object.GetNamespace()
		if ns == "" || known[ns] {
			continue
		}
		known[ns] = true
		in.Objects.Namespaces = append(in.Objects.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		in.Notes = append(in.Notes, fmt.Sprintf("Namespace %s is not in the manifests; it is supposed to have no labels but its name", ns))
	}
	slices.Sort(in.Notes)
}

// Computation is what inputs mean: they and what the engine makes of them.
type Computation struct {
	Computed *explain.Computation
	In       *Inputs
}

// Compute runs the engine over the inputs. What the engine refuses is added to in.refused.
func Compute(in *Inputs) *Computation {
	c := &Computation{explain.Compute(&in.Objects), in}
	for _, p := range in.Objects.Policies {
		in.warnOfAnnotations(p.ObjectMeta)
	}
	for _, p := range in.Objects.ClusterPolicies {
		in.warnOfAnnotations(p.ObjectMeta)
	}
	in.noteStaged()
	for _, p := range c.Computed.Problems {
		in.report(p)
	}
	return c
}

// warnOfAnnotations notes what annotations of a policy say that is not understood.
func (in *Inputs) warnOfAnnotations(meta metav1.ObjectMeta) {
	for _, w := range webhook.AnnotationWarnings(meta.Annotations) {
		in.Notes = append(in.Notes, fmt.Sprintf("%s: %s", strings.TrimPrefix(meta.Namespace+"/"+meta.Name, "/"), w))
	}
}

// report notes what is wrong, or strange, with an object.
func (in *Inputs) report(p explain.Problem) {
	if p.Shadows != "" {
		in.Notes = append(in.Notes, fmt.Sprintf("ExternalNode %s/%s: the ExternalEntity %s that would stand for it is given already: no policy is enforced on the ExternalNode "+
			"unless that is its own", p.Namespace, p.Name, p.Shadows))
	}
	d := in.Documents[objectKey(p.Group, p.Kind, p.Namespace, p.Name)]
	if len(p.Errors) > 0 {
		r := manifest.Refusal{Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, Code: p.Code, Text: policy.JoinErrors(p.Errors)}
		if d != nil {
			r.Position = d.At(p.Errors[0].Field)
		}
		in.Refused = append(in.Refused, r)
	}
	if len(p.Warnings) > 0 {
		note := fmt.Sprintf("%s %s: %s", p.Kind, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/"), policy.JoinErrors(p.Warnings))
		if d != nil {
			note = fmt.Sprintf("%s: %s", d.At(p.Warnings[0].Field), note)
		}
		in.Notes = append(in.Notes, note)
	}
}
