package webhook

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/admission"
)

// storedGroup is a Group or a ClusterGroup.
type storedGroup struct {
	group policy.Group
	meta  metav1.ObjectMeta
	spec  v1beta1.GroupSpec
}

type decodeGroup func([]byte) (storedGroup, error)

func clusterGroup(raw []byte) (storedGroup, error) {
	var o v1beta1.ClusterGroup
	if err := json.Unmarshal(raw, &o); err != nil {
		return storedGroup{}, err
	}
	return storedGroup{convert.ClusterGroup(&o), o.ObjectMeta, o.Spec}, nil
}

func namespacedGroup(raw []byte) (storedGroup, error) {
	var o v1beta1.Group
	if err := json.Unmarshal(raw, &o); err != nil {
		return storedGroup{}, err
	}
	return storedGroup{convert.Group(&o), o.ObjectMeta, o.Spec}, nil
}

// read decodes the group that is asked about, as decodePolicy.read does.
func (decode decodeGroup) read(q *question) (*policy.Group, error) {
	g, err := decode(q.object)
	if err != nil {
		return nil, err
	}
	if g.meta.DeletionTimestamp != nil {
		return nil, nil
	}
	if q.operation == admissionv1.Update {
		old, err := decode(q.old)
		if err == nil && equality.Semantic.DeepEqual(old.spec, g.spec) {
			return nil, nil
		}
	}
	g.group.Namespace = q.namespace
	return &g.group, nil
}

// completeClusterGroup is previewGroup, and makes a list of the one block of a ClusterGroup of
// v1alpha2.
func completeClusterGroup(ctx context.Context, s *states, q *question) answer {
	var object map[string]any
	if err := json.Unmarshal(q.object, &object); err != nil || !kinds.ListBlock(object) {
		return previewGroup(clusterGroup)(ctx, s, q)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return answer{err: err}
	}
	completed := *q
	completed.object = raw
	a := previewGroup(clusterGroup)(ctx, s, &completed)
	if len(a.errs) == 0 && a.err == nil {
		a.patch = []operation{
			{Op: "add", Path: "/spec/ipBlocks", Value: object["spec"].(map[string]any)["ipBlocks"]}, {Op: "remove", Path: "/spec/ipBlock"},
		}
	}
	return a
}

// previewGroup refuses what the rules and the form refuse, as completePolicy does, and leaves
// everything else to the schema.
func previewGroup(decode decodeGroup) func(context.Context, *states, *question) answer {
	return func(ctx context.Context, s *states, q *question) answer {
		g, err := decode.read(q)
		if err != nil || g == nil {
			return answer{}
		}
		if errs := admission.GroupSchema(g); len(errs) > 0 {
			return answer{errs: errs, form: true}
		}
		return checkGroup(ctx, s, g)
	}
}

// validateGroup checks a group that the schema accepts, as validatePolicy does.
func validateGroup(decode decodeGroup) func(context.Context, *states, *question) answer {
	return func(ctx context.Context, s *states, q *question) answer {
		g, err := decode.read(q)
		switch {
		case err != nil:
			return unreadable(err)
		case g == nil:
			return answer{}
		}
		if errs := admission.GroupSchema(g); len(errs) > 0 {
			return answer{errs: errs, form: true}
		}
		a := checkGroup(ctx, s, g)
		for _, w := range admission.GroupWarnings(g) {
			a.warnings = append(a.warnings, w.Error())
		}
		return a
	}
}

// checkGroup applies the rules. Only a group with children has to do with other groups.
func checkGroup(ctx context.Context, s *states, g *policy.Group) answer {
	if errs := admission.ValidateGroup(g, nil); len(errs) > 0 || len(g.ChildGroups) == 0 {
		return answer{errs: errs}
	}
	return s.settled(func(state State) ([]policy.FieldError, error) {
		others, err := state.Groups(ctx, g.Namespace)
		if err != nil {
			return nil, err
		}
		return admission.ValidateGroup(g, others), nil
	})
}
