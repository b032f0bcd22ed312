package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// fieldManager owns the fields that InstallCRDs applies.
const fieldManager = "nephele"

// establishedPoll is how often a CustomResourceDefinition is looked at until it is served.
const establishedPoll = 20 * time.Millisecond

// InstallCRDs applies every CustomResourceDefinition in manifests, files ending in .yaml with one
// object each, server-side, whichever manager owned their fields before. It returns when each is
// established and all its served versions can be discovered. It waits until ctx ends and can be
// repeated: a definition that is as its manifest says is not applied again. Definitions of the
// groups in shared that somebody else has installed stay as they are.
func (cp *ControlPlane) InstallCRDs(ctx context.Context, manifests fs.FS, shared ...string) error {
	crds, err := readCRDs(manifests)
	if err != nil {
		return err
	}
	client, err := apiextensions.NewForConfig(cp.RestConfig())
	if err != nil {
		return err
	}
	there, err := installed(ctx, client)
	if err != nil {
		return err
	}
	force := true
	var ours []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range crds {
		now := there[crd.Name]
		if now != nil && slices.Contains(shared, crd.Spec.Group) && writtenByOthers(now) {
			continue
		}
		ours = append(ours, crd)
		if now != nil && isInstalled(now, crd) {
			continue
		}
		data, err := json.Marshal(crd)
		if err != nil {
			return fmt.Errorf("encode CustomResourceDefinition %s: %w", crd.Name, err)
		}
		_, err = client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, crd.Name, types.ApplyPatchType, data,
			metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
		if err != nil {
			return fmt.Errorf("apply CustomResourceDefinition %s: %w", crd.Name, err)
		}
	}
	for _, crd := range ours {
		if err := awaitCRD(ctx, client, crd); err != nil {
			return fmt.Errorf("wait for CustomResourceDefinition %s: %w", crd.Name, err)
		}
	}
	return nil
}

// installed returns the CustomResourceDefinitions that are there, by name.
func installed(ctx context.Context, client apiextensions.Interface) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	list, err := client.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	there := make(map[string]*apiextensionsv1.CustomResourceDefinition, len(list.Items))
	for i := range list.Items {
		there[list.Items[i].Name] = &list.Items[i]
	}
	return there, nil
}

// writtenByOthers reports whether somebody else than InstallCRDs has written to the spec of a
// CustomResourceDefinition.
func writtenByOthers(there *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(there.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager != fieldManager && m.Subresource == ""
	})
}

// isInstalled reports whether applying a definition would change nothing: InstallCRDs alone has
// written what is there, and it is what the API server makes of the definition. The API server
// compiles all rules of a schema whenever it is applied, so a restart is to apply none.
func isInstalled(there, crd *apiextensionsv1.CustomResourceDefinition) bool {
	if there.DeletionTimestamp != nil || len(there.ManagedFields) == 0 || writtenByOthers(there) {
		return false
	}
	want := crd.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(want)
	return equality.Semantic.DeepEqual(there.Spec, want.Spec) &&
		equality.Semantic.DeepEqual(there.Labels, want.Labels) && equality.Semantic.DeepEqual(there.Annotations, want.Annotations)
}

func readCRDs(manifests fs.FS) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	err := fs.WalkDir(manifests, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".yaml" {
			return err
		}
		data, err := fs.ReadFile(manifests, name)
		if err != nil {
			return err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if crd.Kind != "CustomResourceDefinition" {
			return fmt.Errorf("%s: kind is %q, want CustomResourceDefinition", name, crd.Kind)
		}
		// The generator writes an empty status, which is not ours to apply.
		crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
		crds = append(crds, crd)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinitions: %w", err)
	}
	return crds, nil
}

// awaitCRD waits until crd is established and its served versions are in discovery. Names that
// another one holds are an error, because waiting does not help.
func awaitCRD(ctx context.Context, client apiextensions.Interface, crd *apiextensionsv1.CustomResourceDefinition) error {
	tick := time.NewTicker(establishedPoll)
	defer tick.Stop()
	for {
		served, err := isServed(ctx, client, crd)
		if served || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func isServed(ctx context.Context, client apiextensions.Interface, crd *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	current, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	established := false
	for _, c := range current.Status.Conditions {
		switch {
		case c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse:
			return false, errors.New(c.Message)
		case c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue:
			established = true
		}
	}
	if !established {
		return false, nil
	}
	for _, v := range crd.Spec.Versions {
		if !v.Served {
			continue
		}
		list, err := client.Discovery().ServerResourcesForGroupVersion(crd.Spec.Group + "/" + v.Name)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		isKind := func(r metav1.APIResource) bool { return r.Name == crd.Spec.Names.Plural }
		if !slices.ContainsFunc(list.APIResources, isKind) {
			return false, nil
		}
	}
	return true, nil
}
