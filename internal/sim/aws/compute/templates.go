package compute

import (
	"maps"
	"strconv"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/store"
)

// Templates are the calls about launch templates.
type Templates struct{ s *store.Site }

// TemplatesAt returns the calls on a site.
func TemplatesAt(s *store.Site) Templates { return Templates{s} }

// template finds a template by id or, if that is empty, by name.
func (r Templates) template(id, name string, now time.Time) (*aws.LaunchTemplate, error) {
	if id != "" {
		return store.LookUp("lt", id, r.s.Data.Templates, func(t *aws.LaunchTemplate) time.Time { return t.Visible }, now)
	}
	for _, t := range r.s.Data.Templates {
		if t.Name == name && store.Seen(t.Visible, now) {
			return t, nil
		}
	}
	if name == "" {
		return nil, aws.Refuse("MissingParameter", "Either a launch template ID or a launch template name must be specified in the request.")
	}
	return nil, aws.Refuse("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

// LaunchTemplates is DescribeLaunchTemplates by ids.
func (r Templates) LaunchTemplates(ids ...string) (out []aws.LaunchTemplate, err error) {
	r.s.Read(func(now time.Time) {
		out, err = store.ByID("lt", r.s.Data.Templates, ids, func(t *aws.LaunchTemplate) bool { return store.Seen(t.Visible, now) }, (*aws.LaunchTemplate).Clone)
	})
	return out, err
}

// LaunchTemplate finds one by id or name.
func (r Templates) LaunchTemplate(id, name string) (out aws.LaunchTemplate, err error) {
	r.s.Read(func(now time.Time) {
		t, e := r.template(id, name, now)
		if err = e; e == nil {
			out = t.Clone()
		}
	})
	return out, err
}

// CreateLaunchTemplate makes a template with its first version.
func (r Templates) CreateLaunchTemplate(name, by string, first aws.TemplateVersion, tags aws.Tags, token string) (aws.LaunchTemplate, error) {
	var out aws.LaunchTemplate
	err := r.s.Mutate("CreateLaunchTemplate", func(now time.Time) ([]string, error) {
		if x := r.s.Data.Templates[r.s.Made("CreateLaunchTemplate", token)]; x != nil {
			out = x.Clone()
			return nil, store.ErrNothingChanged
		}
		if name == "" {
			return nil, aws.Refuse("MissingParameter", "The request must contain the parameter LaunchTemplateName")
		}
		for _, t := range r.s.Data.Templates {
			if t.Name == name {
				return nil, aws.Refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
			}
		}
		if err := r.s.CheckNewTags(tags); err != nil {
			return nil, err
		}
		first.Number, first.Created = 1, now.UTC().Truncate(time.Second)
		t := &aws.LaunchTemplate{
			ID: r.s.NewID("lt"), Account: r.s.Account, Name: name, CreatedBy: by, Created: first.Created, DefaultVersion: 1,
			Versions: []aws.TemplateVersion{first}, Tags: tags.Clone(), Visible: r.s.Visible(now),
		}
		r.s.Data.Templates[t.ID] = t
		r.s.Remember("CreateLaunchTemplate", token, t.ID)
		out = t.Clone()
		return []string{t.ID}, nil
	})
	return out, err
}

// CreateLaunchTemplateVersion adds a version and returns its number. A source version gives what
// the new one does not say.
func (r Templates) CreateLaunchTemplateVersion(id, name, source string, next aws.TemplateVersion, token string) (aws.LaunchTemplate, int, error) {
	var out aws.LaunchTemplate
	number := 0
	err := r.s.Mutate("CreateLaunchTemplateVersion", func(now time.Time) ([]string, error) {
		t, err := r.template(id, name, now)
		if err != nil {
			return nil, err
		}
		if made := r.s.Made("CreateLaunchTemplateVersion", token); made != "" {
			number, err = strconv.Atoi(made)
			if err == nil && t.Numbered(number) != nil {
				out = t.Clone()
				return nil, store.ErrNothingChanged
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
		r.s.Remember("CreateLaunchTemplateVersion", token, strconv.Itoa(next.Number))
		out, number = t.Clone(), next.Number
		return []string{t.ID}, nil
	})
	return out, number, err
}

// ModifyLaunchTemplate sets the default version.
func (r Templates) ModifyLaunchTemplate(id, name, version string) (aws.LaunchTemplate, error) {
	var out aws.LaunchTemplate
	err := r.s.Mutate("ModifyLaunchTemplate", func(now time.Time) ([]string, error) {
		t, err := r.template(id, name, now)
		if err != nil {
			return nil, err
		}
		v, err := t.Version(version)
		if err != nil {
			return nil, err
		}
		t.DefaultVersion = v.Number
		out = t.Clone()
		return []string{t.ID}, nil
	})
	return out, err
}

// DeleteLaunchTemplate deletes a template with all its versions.
func (r Templates) DeleteLaunchTemplate(id, name string) (aws.LaunchTemplate, error) {
	var out aws.LaunchTemplate
	err := r.s.Mutate("DeleteLaunchTemplate", func(now time.Time) ([]string, error) {
		t, err := r.template(id, name, now)
		if err != nil {
			return nil, err
		}
		out = t.Clone()
		delete(r.s.Data.Templates, t.ID)
		return []string{t.ID}, nil
	})
	return out, err
}

// ModifyInstance changes an attribute of an instance.
func (r Instances) ModifyInstance(id string, c aws.InstanceChange) error {
	return r.s.Mutate("ModifyInstanceAttribute", func(now time.Time) ([]string, error) {
		i, err := r.s.Instance(id, now)
		if err != nil {
			return nil, err
		}
		if i.State == aws.Terminated || i.State == aws.ShuttingDown {
			return nil, aws.Refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be modified.", i.ID)
		}
		switch {
		case c.Type != "":
			if i.State != aws.Stopped {
				return nil, aws.Refuse("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.", i.ID)
			}
			i.InstanceType = c.Type
		case c.SourceDestCheck != nil:
			nics := r.s.Data.Attached(i.ID)
			if len(nics) != 1 {
				return nil, aws.Refuse("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an interface ID for the operation instead.", i.ID)
			}
			nics[0].SourceDestCheck = *c.SourceDestCheck
			return []string{i.ID, nics[0].ID}, nil
		default:
			c.Attributes(&i.Attributes)
		}
		return []string{i.ID}, nil
	})
}
