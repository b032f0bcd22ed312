package aws

import (
	"slices"
	"strconv"
	"time"
)

// LaunchTemplate is a set of parameters for RunInstances, with versions from 1.
type LaunchTemplate struct {
	ID             string            `json:"id"`
	Account        string            `json:"account"`
	Name           string            `json:"name"`
	CreatedBy      string            `json:"createdBy"`
	Created        time.Time         `json:"created"`
	DefaultVersion int               `json:"defaultVersion"`
	Versions       []TemplateVersion `json:"versions"`
	Tags           Tags              `json:"tags,omitempty"`
	Visible        time.Time         `json:"visible,omitzero"`
}

// TemplateVersion is one version. Data are wire parameters below LaunchTemplateData.
type TemplateVersion struct {
	Number      int               `json:"number"`
	Description string            `json:"description,omitempty"`
	Created     time.Time         `json:"created"`
	Data        map[string]string `json:"data"`
}

// Numbered is the version with a number; nil if there is none.
func (t *LaunchTemplate) Numbered(n int) *TemplateVersion {
	for i := range t.Versions {
		if t.Versions[i].Number == n {
			return &t.Versions[i]
		}
	}
	return nil
}

// Latest is the number of the newest version.
func (t *LaunchTemplate) Latest() int { return t.Versions[len(t.Versions)-1].Number }

// Version finds a version by number, $Latest or $Default; empty means $Default.
func (t *LaunchTemplate) Version(name string) (TemplateVersion, error) {
	n := 0
	switch name {
	case "", "$Default":
		n = t.DefaultVersion
	case "$Latest":
		n = t.Latest()
	default:
		var err error
		if n, err = strconv.Atoi(name); err != nil {
			return TemplateVersion{}, InvalidValue("Invalid launch template version: '%s'", name)
		}
	}
	v := t.Numbered(n)
	if v == nil {
		return TemplateVersion{}, Refuse("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", name, t.ID)
	}
	return *v, nil
}

// TemplateVersions are the versions that a caller names, or all.
func (t *LaunchTemplate) TemplateVersions(names []string) ([]TemplateVersion, error) {
	if len(names) == 0 {
		return slices.Clone(t.Versions), nil
	}
	var out []TemplateVersion
	for _, n := range names {
		v, err := t.Version(n)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(x TemplateVersion) bool { return x.Number == v.Number }) {
			out = append(out, v)
		}
	}
	return out, nil
}
