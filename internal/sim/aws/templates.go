package aws

import (
	"cmp"
	"maps"
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

func cloneTemplate(t *LaunchTemplate) LaunchTemplate {
	c := *t
	c.Versions = nil
	for _, v := range t.Versions {
		v.Data = maps.Clone(v.Data)
		c.Versions = append(c.Versions, v)
	}
	c.Tags = maps.Clone(t.Tags)
	return c
}

func (t *LaunchTemplate) version(n int) *TemplateVersion {
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
			return TemplateVersion{}, invalidValue("Invalid launch template version: '%s'", name)
		}
	}
	v := t.version(n)
	if v == nil {
		return TemplateVersion{}, refuse("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", name, t.ID)
	}
	return *v, nil
}

// template finds a template by id or, if that is empty, by name.
func (r Templates) template(id, name string, now time.Time) (*LaunchTemplate, error) {
	if id != "" {
		return lookUp("lt", id, r.data.templates, func(t *LaunchTemplate) time.Time { return t.Visible }, now)
	}
	for _, t := range r.data.templates {
		if t.Name == name && seen(t.Visible, now) {
			return t, nil
		}
	}
	if name == "" {
		return nil, refuse("MissingParameter", "Either a launch template ID or a launch template name must be specified in the request.")
	}
	return nil, refuse("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

// LaunchTemplates is DescribeLaunchTemplates by ids.
func (r Templates) LaunchTemplates(ids ...string) (out []LaunchTemplate, err error) {
	r.w.read(func(now time.Time) {
		out, err = byID("lt", r.data.templates, ids, func(t *LaunchTemplate) bool { return seen(t.Visible, now) }, cloneTemplate)
	})
	return out, err
}

// LaunchTemplate finds one by id or name.
func (r Templates) LaunchTemplate(id, name string) (out LaunchTemplate, err error) {
	r.w.read(func(now time.Time) {
		t, e := r.template(id, name, now)
		if err = e; e == nil {
			out = cloneTemplate(t)
		}
	})
	return out, err
}

// CreateLaunchTemplate makes a template with its first version.
func (r Templates) CreateLaunchTemplate(name, by string, first TemplateVersion, tags Tags, token string) (LaunchTemplate, error) {
	var out LaunchTemplate
	err := r.mutate("CreateLaunchTemplate", func(now time.Time) ([]string, error) {
		if x := repeated(&r.data.fabric, "CreateLaunchTemplate", token, r.data.templates); x != nil {
			out = cloneTemplate(x)
			return nil, errNothingChanged
		}
		if name == "" {
			return nil, refuse("MissingParameter", "The request must contain the parameter LaunchTemplateName")
		}
		for _, t := range r.data.templates {
			if t.Name == name {
				return nil, refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
			}
		}
		if err := r.checkNewTags(tags); err != nil {
			return nil, err
		}
		first.Number, first.Created = 1, now.UTC().Truncate(time.Second)
		t := &LaunchTemplate{
			ID: r.w.newID("lt"), Account: r.at.account, Name: name, CreatedBy: by, Created: first.Created, DefaultVersion: 1,
			Versions: []TemplateVersion{first}, Tags: cloneTags(tags), Visible: now.Add(r.w.visibility),
		}
		r.data.templates[t.ID] = t
		r.data.remember("CreateLaunchTemplate", token, t.ID)
		out = cloneTemplate(t)
		return []string{t.ID}, nil
	})
	return out, err
}

// CreateLaunchTemplateVersion adds a version and returns its number. A source version gives what
// the new one does not say.
func (r Templates) CreateLaunchTemplateVersion(id, name, source string, next TemplateVersion, token string) (LaunchTemplate, int, error) {
	var out LaunchTemplate
	number := 0
	err := r.mutate("CreateLaunchTemplateVersion", func(now time.Time) ([]string, error) {
		t, err := r.template(id, name, now)
		if err != nil {
			return nil, err
		}
		if made, ok := r.data.tokens["CreateLaunchTemplateVersion "+token]; ok && token != "" {
			number, err = strconv.Atoi(made)
			if err == nil && t.version(number) != nil {
				out = cloneTemplate(t)
				return nil, errNothingChanged
			}
		}
		if source != "" {
			from, err := t.Version(source)
			if err != nil {
				return nil, err
			}
			data := maps.Clone(from.Data)
			maps.Copy(data, next.Data)
			next.Data = data
		}
		next.Number, next.Created = t.Latest()+1, now.UTC().Truncate(time.Second)
		t.Versions = append(t.Versions, next)
		r.data.remember("CreateLaunchTemplateVersion", token, strconv.Itoa(next.Number))
		out, number = cloneTemplate(t), next.Number
		return []string{t.ID}, nil
	})
	return out, number, err
}

// ModifyLaunchTemplate sets the default version.
func (r Templates) ModifyLaunchTemplate(id, name, version string) (LaunchTemplate, error) {
	var out LaunchTemplate
	err := r.mutate("ModifyLaunchTemplate", func(now time.Time) ([]string, error) {
		t, err := r.template(id, name, now)
		if err != nil {
			return nil, err
		}
		v, err := t.Version(version)
		if err != nil {
			return nil, err
		}
		t.DefaultVersion = v.Number
		out = cloneTemplate(t)
		return []string{t.ID}, nil
	})
	return out, err
}

// DeleteLaunchTemplate deletes a template with all its versions.
func (r Templates) DeleteLaunchTemplate(id, name string) (LaunchTemplate, error) {
	var out LaunchTemplate
	err := r.mutate("DeleteLaunchTemplate", func(now time.Time) ([]string, error) {
		t, err := r.template(id, name, now)
		if err != nil {
			return nil, err
		}
		out = cloneTemplate(t)
		delete(r.data.templates, t.ID)
		return []string{t.ID}, nil
	})
	return out, err
}

// InstanceAttributes are what ModifyInstanceAttribute changes beside the groups.
type InstanceAttributes struct {
	KeepRunning  bool   `json:"disableApiStop,omitempty"`
	KeepAlive    bool   `json:"disableApiTermination,omitempty"`
	OnShutdown   string `json:"shutdownBehavior,omitempty"` // empty = stop
	UserData     string `json:"userData,omitempty"`         // base64
	EBSOptimized bool   `json:"ebsOptimized,omitempty"`
}

// Shutdown is what the guest's own shutdown does.
func (a InstanceAttributes) Shutdown() string { return cmp.Or(a.OnShutdown, "stop") }

// InstanceChange is one attribute of an instance other than its groups; exactly one is set.
type InstanceChange struct {
	Attributes      func(*InstanceAttributes)
	Type            string // of a stopped instance
	SourceDestCheck *bool  // of an instance with one interface
}

// ModifyInstance changes an attribute of an instance.
func (r InstanceCalls) ModifyInstance(id string, c InstanceChange) error {
	return r.mutate("ModifyInstanceAttribute", func(now time.Time) ([]string, error) {
		i, err := r.instance(id, now)
		if err != nil {
			return nil, err
		}
		if i.State == Terminated || i.State == ShuttingDown {
			return nil, refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be modified.", i.ID)
		}
		switch {
		case c.Type != "":
			if i.State != Stopped {
				return nil, refuse("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.", i.ID)
			}
			i.InstanceType = c.Type
		case c.SourceDestCheck != nil:
			nics := r.data.attached(i.ID)
			if len(nics) != 1 {
				return nil, refuse("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
			}
			nics[0].SourceDestCheck = *c.SourceDestCheck
			return []string{i.ID, nics[0].ID}, nil
		default:
			c.Attributes(&i.Attributes)
		}
		return []string{i.ID}, nil
	})
}

// protected says why an instance is not stopped or terminated; nil if it may be.
func (i *Instance) protected(verb string) error {
	switch {
	case verb == "terminated" && i.Attributes.KeepAlive:
		return refuse("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", i.ID)
	case verb == "stopped" && i.Attributes.KeepRunning:
		return refuse("OperationNotPermitted", "The instance '%s' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.", i.ID)
	}
	return nil
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
