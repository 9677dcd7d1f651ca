//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/semver"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
)

// promotion holds the flags of `eksnode ami promote`.
type promotion struct {
	regions
	from, to, output string
	force            bool
}

// promoted is the change of a parameter in a region.
type promoted struct {
	Region    string `json:"region"`
	Parameter string `json:"parameter"`
	Image     string `json:"image"`
	Before    string `json:"before,omitempty"` // earlier value
	Changed   bool   `json:"changed"`
}

func amiPromoteCommand() *cobra.Command {
	var p promotion
	cmd := newCommand("promote", cobra.NoArgs, p.run)
	bind(cmd, targets{"from": &p.from, "to": &p.to, "force": &p.force})
	forms(cmd, map[string]func(string) error{"from": awsnames.Parameter, "to": awsnames.Parameter})
	required(cmd, [2]string{"from", "set the "}, [2]string{"to", "set the "})
	formatFlag(cmd, &p.output, "text", "json")
	p.flags(cmd)
	return cmd
}

// stage is what the two parameters of a region contain.
type stage struct {
	image  awsapi.Image // of --from; without ID if there is no such parameter
	value  string       // of --to
	before awsapi.Image // of --to; without ID if there is no such AMI
	// wrong is why --from names no AMI.
	wrong error
}

func (p *promotion) run(cmd *cobra.Command, _ []string) error {
	if p.from == p.to {
		return fmt.Errorf("--from and --to are the same parameter %s", p.to)
	}
	opened, err := p.open(cmd.Context())
	if err != nil {
		return err
	}
	stages, unread := awsapi.Each(cmd.Context(), opened, p.read)
	opened = slices.DeleteFunc(opened, func(a *awsapi.AWS) bool {
		return stages[a.Region].image.ID == "" && stages[a.Region].wrong == nil
	})
	if len(opened) == 0 && unread == nil {
		return fmt.Errorf("reading the parameter %s: no region has the parameter", p.from)
	}
	if wrong := p.check(opened, stages); len(wrong) > 0 {
		failed := errors.New("nothing was changed:\n" + strings.Join(wrong, "\n"))
		if unread != nil {
			return errors.Join(failed, unread)
		}
		return errors.Join(exitError(1), failed)
	}
	done, failed := awsapi.Each(cmd.Context(), opened, func(ctx context.Context, a *awsapi.AWS) (promoted, error) {
		s := stages[a.Region]
		entry := promoted{a.Region, p.to, s.image.ID, s.value, s.value != s.image.ID}
		if !entry.Changed {
			return entry, nil
		}
		return entry, a.Publish(ctx, p.to, s.image.ID)
	})
	list := inOrder(opened, done)
	return errors.Join(answer(cmd, p.output, list, func(out *printer) { out.promoted(list) }), failed, unread)
}

func inOrder[T any](opened []*awsapi.AWS, done map[string]T) []T {
	list := []T{}
	for _, a := range opened {
		if one, ok := done[a.Region]; ok {
			list = append(list, one)
		}
	}
	return list
}

func (p promotion) read(ctx context.Context, a *awsapi.AWS) (stage, error) {
	id, err := a.Parameter(ctx, p.from)
	switch {
	case awsapi.IsNotFound(err) && p.all:
		return stage{}, nil
	case awsapi.IsNotFound(err):
		return stage{wrong: err}, nil
	case err != nil:
		return stage{}, err
	}
	if err := awsnames.ImageID.Check(id); err != nil {
		return stage{wrong: fmt.Errorf("reading the parameter %s: %w", p.from, err)}, nil
	}
	var s stage
	if s.image, err = a.Image(ctx, id); err != nil && awsapi.IsNotFound(err) {
		return stage{wrong: err}, nil
	} else if err != nil {
		return stage{}, err
	}
	if s.value, err = a.Parameter(ctx, p.to); err != nil && !awsapi.IsNotFound(err) {
		return stage{}, err
	}
	if awsnames.ImageID.Check(s.value) == nil {
		if s.before, err = a.Present(ctx, s.value); err != nil {
			return stage{}, err
		}
	}
	return s, nil
}

func (p promotion) check(opened []*awsapi.AWS, stages map[string]stage) []string {
	var wrong []string
	var first awsapi.Image
	for _, a := range opened {
		s := stages[a.Region]
		if s.wrong != nil {
			wrong = append(wrong, fmt.Sprintf("in %s: %v", a.Region, s.wrong))
			continue
		}
		for _, problem := range p.problems(s) {
			wrong = append(wrong, fmt.Sprintf("%s in %s: %s", s.image.ID, a.Region, problem))
		}
		if first.ID == "" {
			first = s.image
		}
		if !p.force && (!maps.Equal(s.image.Marks(), first.Marks()) || s.image.Architecture != first.Architecture) {
			wrong = append(wrong, fmt.Sprintf("%s in %s: the processor or the eksnode tags differ from those of %s "+
				"in %s", s.image.ID, a.Region, first.ID, first.Region))
		}
	}
	return wrong
}

func (p promotion) problems(s stage) []string {
	if s.image.State != "available" {
		return []string{"the image is " + s.image.State}
	}
	if p.force {
		return nil
	}
	var wrong []string
	if deprecated(s.image, time.Now()) {
		wrong = append(wrong, "the image is deprecated since "+s.image.Deprecated.Format(time.DateOnly))
	}
	marks, before := s.image.Marks(), s.before.Marks()
	for _, name := range []string{"distro", "kubernetes-version"} {
		if marks[name] == "" {
			wrong = append(wrong, "the image has no tag "+awsapi.TagPrefix+name)
		}
	}
	if s.before.ID == "" || len(wrong) > 0 {
		return wrong
	}
	now := fmt.Sprintf("; %s has %s", p.to, s.before.ID)
	if s.image.Architecture != s.before.Architecture {
		wrong = append(wrong, fmt.Sprintf("the image is for %s, not %s%s", s.image.Architecture, s.before.Architecture,
			now))
	}
	if was := before["distro"]; was != "" && was != marks["distro"] {
		wrong = append(wrong, fmt.Sprintf("the distribution is %s, not %s%s", marks["distro"], was, now))
	}
	if was := before["kubernetes-version"]; semver.Compare("v"+marks["kubernetes-version"], "v"+was) < 0 {
		wrong = append(wrong, fmt.Sprintf("Kubernetes %s is older than %s%s", marks["kubernetes-version"], was, now))
	}
	if s.image.Created.Before(s.before.Created) {
		wrong = append(wrong, fmt.Sprintf("the image was made on %s, before %s%s",
			s.image.Created.Format(time.DateOnly), s.before.Created.Format(time.DateOnly), now))
	}
	return wrong
}

func (p *printer) promoted(list []promoted) {
	var undo []string
	for _, one := range list {
		switch {
		case !one.Changed:
			p.line("%s in %s is already %s", one.Parameter, one.Region, one.Image)
		case one.Before == "":
			p.line("%s in %s is %s", one.Parameter, one.Region, one.Image)
		default:
			p.line("%s in %s is %s; it was %s", one.Parameter, one.Region, one.Image, one.Before)
		}
		if one.Changed && awsnames.ImageID.Check(one.Before) == nil {
			undo = append(undo, fmt.Sprintf("  eksnode ami publish %s:%s --parameter %s", one.Region, one.Before,
				one.Parameter))
		}
	}
	if len(undo) > 0 {
		p.line("to undo, with the same credentials:\n%s", strings.Join(undo, "\n"))
	}
}

// publishing holds the flags of `eksnode ami publish`.
type publishing struct {
	regions
	parameter, output string
}

// published is an AMI in the parameter of a region.
type published struct {
	Parameter string `json:"parameter"`
	Region    string `json:"region"`
	Image     string `json:"image"`
}

func amiPublishCommand() *cobra.Command {
	var p publishing
	cmd := newCommand("publish AMI", named("an AMI ID", 1), p.run)
	bind(cmd, targets{"parameter": &p.parameter})
	forms(cmd, map[string]func(string) error{"parameter": awsnames.Parameter})
	required(cmd, [2]string{"parameter", "name the SSM parameter for the AMI ID, such as /my-node/stable"})
	formatFlag(cmd, &p.output, "text", "json")
	p.flags(cmd)
	return cmd
}

func (p *publishing) run(cmd *cobra.Command, args []string) error {
	image, err := snapshot.ParseAMI(args[0])
	if err == nil {
		err = awsnames.ImageID.Check(image.ID) // a parameter may name another AMI tomorrow
	}
	if err != nil {
		return err
	}
	opened, err := p.openFor(cmd.Context(), image.Region)
	if err != nil {
		return err
	}
	ids, unread := map[string]string{opened[0].Region: image.ID}, error(nil)
	if p.several() || image.Region != "" && image.Region != opened[0].Region {
		if ids, unread, err = p.copies(cmd.Context(), opened, image); err != nil {
			return err
		}
	}
	opened = slices.DeleteFunc(opened, func(a *awsapi.AWS) bool { return ids[a.Region] == "" })
	done, failed := awsapi.Each(cmd.Context(), opened, func(ctx context.Context, a *awsapi.AWS) (published, error) {
		return published{p.parameter, a.Region, ids[a.Region]}, a.Publish(ctx, p.parameter, ids[a.Region])
	})
	return errors.Join(p.print(cmd, inOrder(opened, done)), failed, unread)
}

func (p publishing) print(cmd *cobra.Command, list []published) error {
	var value any = list
	if !p.several() {
		if len(list) == 0 {
			return nil // the error has the reason
		}
		value = list[0]
	}
	return answer(cmd, p.output, value, func(out *printer) {
		for _, one := range list {
			out.line("%s in %s is %s", one.Parameter, one.Region, one.Image)
		}
	})
}

// copies returns the ID of an AMI's copy in each region. unread are the errors of
// regions that could not be read.
func (p publishing) copies(ctx context.Context, opened []*awsapi.AWS, image snapshot.Named) (
	ids map[string]string, unread, err error) {
	id := image.ID
	source, err := find(ctx, opened, image)
	if err != nil {
		return nil, nil, err
	}
	images, read, unread := imagesOf(ctx, opened, source.Owner)
	if !slices.ContainsFunc(images, func(i awsapi.Image) bool { return i.ID == id }) {
		images = append(images, source)
	}
	builds := awsapi.AllBuilds(images)
	build := builds[slices.IndexFunc(builds, func(b awsapi.Build) bool {
		return slices.ContainsFunc(b, func(i awsapi.Image) bool { return i.ID == id })
	})]
	ids = map[string]string{}
	var errs []error
	for _, a := range read {
		here := slices.DeleteFunc(slices.Clone(build), func(i awsapi.Image) bool {
			return i.Region != a.Region || a.Region == source.Region && i.ID != id
		})
		switch {
		case len(here) > 1:
			errs = append(errs, fmt.Errorf("%s has several copies of %s, such as %s and %s; publish one of them by "+
				"its ID", a.Region, id, here[0].ID, here[1].ID))
		case len(here) == 1 && here[0].State != "available":
			errs = append(errs, fmt.Errorf("in %s: publishing the image %s: the image is %s", a.Region, here[0].ID,
				here[0].State))
		case len(here) == 1:
			ids[a.Region] = here[0].ID
		case !p.all:
			errs = append(errs, fmt.Errorf("%s has no copy of %s; copy the AMI to the region, or leave the region out",
				a.Region, id))
		}
	}
	if len(ids) == 0 && len(errs) == 0 {
		return nil, nil, unread
	}
	return ids, unread, errors.Join(errs...)
}
