package controlplane

import (
	"errors"
	"io"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// kindsPlugin is the name of knownKinds among the admission plugins.
const kindsPlugin = "NepheleKnownKinds"

// knownKinds is a hand on what the API server's admission policies know of kinds, which they look
// up the kinds of their parameters with. The API server renews that twice a minute only. A policy
// with a parameter of a kind that was not yet served when it was first looked up, as all kinds of
// CustomResourceDefinitions just after a start, refuses everything until then.
//
// It is an admission plugin that has no say in anything, because only to such the API server gives
// what it knows. It is safe for concurrent use.
type knownKinds struct {
	mu     sync.Mutex
	mapper meta.ResettableRESTMapper
}

var (
	_ admission.Interface         = &knownKinds{}
	_ initializer.WantsRESTMapper = &knownKinds{}
)

// register makes it a plugin of an API server that is to be built.
func (k *knownKinds) register(o *genericoptions.AdmissionOptions) {
	o.Plugins.Register(kindsPlugin, func(io.Reader) (admission.Interface, error) { return k, nil })
	o.RecommendedPluginOrder = append(slices.Clone(o.RecommendedPluginOrder), kindsPlugin)
}

// Handles implements admission.Interface: nothing.
func (k *knownKinds) Handles(admission.Operation) bool { return false }

// SetRESTMapper implements initializer.WantsRESTMapper.
func (k *knownKinds) SetRESTMapper(m meta.RESTMapper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mapper, _ = m.(meta.ResettableRESTMapper)
}

// ValidateInitialization implements admission.InitializationValidator.
func (k *knownKinds) ValidateInitialization() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mapper == nil {
		return errors.New("the API server does not show what it knows of kinds")
	}
	return nil
}

// renew makes the API server look up kinds anew when it needs one.
func (k *knownKinds) renew() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mapper != nil {
		k.mapper.Reset()
	}
}
