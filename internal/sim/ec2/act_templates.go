package ec2

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2/codec"
	"github.com/nephele-io/nephele/internal/sim/ec2/wire"
)

// templateActions are those on launch templates.
func templateActions() map[string]action {
	return map[string]action{
		"CreateLaunchTemplate":           createLaunchTemplate,
		"CreateLaunchTemplateVersion":    createLaunchTemplateVersion,
		"DescribeLaunchTemplates":        describeLaunchTemplates,
		"DescribeLaunchTemplateVersions": describeLaunchTemplateVersions,
		"ModifyLaunchTemplate":           modifyLaunchTemplate,
		"DeleteLaunchTemplate":           deleteLaunchTemplate,
	}
}

// namedTemplate reads which template a call is about.
func namedTemplate(r *request) (id, name string) {
	return r.params.String("LaunchTemplateId"), r.params.String("LaunchTemplateName")
}

// templateData reads what a version says. What it says is checked when an instance is launched with
// it.
func templateData(r *request) (aws.TemplateVersion, error) {
	v := aws.TemplateVersion{Description: r.params.String("VersionDescription"), Data: map[string]string{}}
	data := r.params.Sub("LaunchTemplateData")
	for key := range r.call.Params {
		if name, ok := strings.CutPrefix(key, "LaunchTemplateData."); ok {
			v.Data[name] = data.String(name)
		}
	}
	if len(v.Data) == 0 {
		return v, codec.Missing("LaunchTemplateData")
	}
	return v, nil
}

func createLaunchTemplate(r *request) ([]wire.Element, error) {
	tags, err := codec.TagSpec(r.params, "launch-template")
	if err != nil {
		return nil, err
	}
	name, err := need(r, "LaunchTemplateName")
	if err != nil {
		return nil, err
	}
	first, err := templateData(r)
	if err != nil {
		return nil, err
	}
	t, err := r.region.Templates().CreateLaunchTemplate(name, r.caller.ARN(), first, tags, r.params.String("ClientToken"))
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("launchTemplate", codec.TemplateBody(t)...)}, nil
}

func createLaunchTemplateVersion(r *request) ([]wire.Element, error) {
	id, name := namedTemplate(r)
	next, err := templateData(r)
	if err != nil {
		return nil, err
	}
	t, number, err := r.region.Templates().CreateLaunchTemplateVersion(id, name, r.params.String("SourceVersion"), next, r.params.String("ClientToken"))
	if err != nil {
		return nil, err
	}
	v, err := t.Version(strconv.Itoa(number))
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("launchTemplateVersion", codec.VersionBody(t, v)...)}, nil
}

func modifyLaunchTemplate(r *request) ([]wire.Element, error) {
	id, name := namedTemplate(r)
	version, err := need(r, "SetDefaultVersion")
	if err != nil {
		return nil, err
	}
	// A repetition sets the same version again: the token is not needed.
	_ = r.params.String("ClientToken")
	t, err := r.region.Templates().ModifyLaunchTemplate(id, name, version)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("launchTemplate", codec.TemplateBody(t)...)}, nil
}

func deleteLaunchTemplate(r *request) ([]wire.Element, error) {
	id, name := namedTemplate(r)
	t, err := r.region.Templates().DeleteLaunchTemplate(id, name)
	if err != nil {
		return nil, err
	}
	return []wire.Element{wire.Node("launchTemplate", codec.TemplateBody(t)...)}, nil
}

func describeLaunchTemplates(r *request) ([]wire.Element, error) {
	ids, names := r.params.Strings("LaunchTemplateId"), r.params.Strings("LaunchTemplateName")
	for _, name := range names {
		t, err := r.region.Templates().LaunchTemplate("", name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, t.ID)
	}
	templates, err := r.region.Templates().LaunchTemplates(ids...)
	if err != nil {
		return nil, err
	}
	page, err := list(r, listing[aws.LaunchTemplate]{
		items: templates,
		key:   func(t aws.LaunchTemplate) string { return t.ID },
		known: wire.Attributes[aws.LaunchTemplate]{
			"launch-template-name": func(t aws.LaunchTemplate) []string { return []string{t.Name} },
		},
		tags: func(t aws.LaunchTemplate) map[string]string { return t.Tags },
		page: pageRule{min: 1, max: 200},
	})
	if err != nil {
		return nil, err
	}
	return pageOf("launchTemplates", page, codec.TemplateBody), nil
}

func describeLaunchTemplateVersions(r *request) ([]wire.Element, error) {
	t, err := r.region.Templates().LaunchTemplate(namedTemplate(r))
	if err != nil {
		return nil, err
	}
	versions, err := t.TemplateVersions(r.params.Strings("LaunchTemplateVersion"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(versions, func(a, b aws.TemplateVersion) int { return b.Number - a.Number })
	return []wire.Element{wire.List("launchTemplateVersionSet", versions, func(v aws.TemplateVersion) []wire.Element {
		return codec.VersionBody(t, v)
	})}, nil
}

// launchWith completes the parameters of RunInstances with the parameters of the template that it
// names: what the call itself says comes first.
func launchWith(r *request) error {
	if !r.params.Has("LaunchTemplate") {
		return nil
	}
	t, err := r.region.Templates().LaunchTemplate(r.params.String("LaunchTemplate.LaunchTemplateId"), r.params.String("LaunchTemplate.LaunchTemplateName"))
	if err != nil {
		return err
	}
	v, err := t.Version(r.params.String("LaunchTemplate.Version"))
	if err != nil {
		return err
	}
	all := maps.Clone(r.call.Params)
	for k, value := range v.Data {
		if root, _, _ := strings.Cut(k, "."); !r.params.Has(root) {
			all[k] = value
		}
	}
	maps.DeleteFunc(all, func(k, _ string) bool { return strings.HasPrefix(k, "LaunchTemplate.") })
	r.params = codec.ParamsOf(all)
	return nil
}
