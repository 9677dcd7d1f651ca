//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// survey holds the builds to retire, and the users of their AMIs.
type survey struct {
	all        int // AMIs
	old        []awsapi.Build
	references map[string]*awsapi.References // by region
	// kept lists the users of the AMIs to keep, by AMI ID.
	kept map[string][]string
	// unseen joins the errors of lists that could not be read.
	unseen error
}

func (r retirement) survey(ctx context.Context, opened []*awsapi.AWS, now time.Time) (survey, error) {
	images, read, unread := imagesOf(ctx, opened, "self")
	if len(read) == 0 {
		return survey{}, unread
	}
	builds := awsapi.NodeBuilds(images)
	s := survey{all: len(slices.Concat(builds...)), old: r.old(builds, now), kept: map[string][]string{}}
	old := slices.Concat(s.old...)
	if len(old) == 0 {
		s.unseen = unread
		return s, nil
	}
	since := now.AddDate(0, 0, -r.days)
	look := func(ctx context.Context, a *awsapi.AWS) (*awsapi.References, error) {
		here := slices.DeleteFunc(slices.Clone(old), func(i awsapi.Image) bool { return i.Region != a.Region })
		return a.References(ctx, here, since), nil
	}
	s.references, s.unseen = awsapi.Each(ctx, read, look)
	for _, a := range read {
		s.unseen = errors.Join(s.unseen, r.in(a.Region, s.references[a.Region].Unseen()))
	}
	s.dropGone()
	if unread != nil {
		names := show.Each(read, func(a *awsapi.AWS) string { return a.Region })
		s.unseen = errors.Join(s.unseen, unread, fmt.Errorf("all AMIs count as used while a region cannot be read; "+
			"to leave it out, use --region %s", strings.Join(names, ",")))
	}
	s.findUsers(r, read)
	return s, nil
}

// dropGone leaves out what an earlier run has deregistered.
func (s *survey) dropGone() {
	for n, b := range s.old {
		s.old[n] = slices.DeleteFunc(b, func(i awsapi.Image) bool { return s.references[i.Region].Gone(i.ID) })
		s.all -= len(b) - len(s.old[n])
	}
	s.old = slices.DeleteFunc(s.old, func(b awsapi.Build) bool { return len(b) == 0 })
}

func (r retirement) in(region string, err error) error {
	if err == nil || !r.several() {
		return err
	}
	return fmt.Errorf("in %s: %w", region, err)
}

// findUsers collects the users of AMIs in all regions: a parameter may list the AMIs of
// other regions.
func (s *survey) findUsers(r retirement, read []*awsapi.AWS) {
	unknown := s.unseen != nil
	for _, b := range s.old {
		for _, i := range b {
			var users []string
			for _, a := range read {
				some, err := s.references[a.Region].Of(i.ID)
				for _, user := range some {
					if a.Region != i.Region {
						user += " in " + a.Region
					}
					users = append(users, user)
				}
				if err != nil || unknown && a.Region == i.Region {
					users = append(users, "unknown, because a list could not be read")
				}
				s.unseen = errors.Join(s.unseen, r.in(a.Region, err))
			}
			if len(users) > 0 {
				s.kept[i.ID] = users
			}
		}
		s.spread(b)
	}
}

// spread keeps a build whole: an AMI in use keeps its copies.
func (s *survey) spread(b awsapi.Build) {
	at := slices.IndexFunc(b, func(i awsapi.Image) bool { return s.kept[i.ID] != nil })
	if at < 0 {
		return
	}
	for _, i := range b {
		if s.kept[i.ID] == nil {
			s.kept[i.ID] = []string{fmt.Sprintf("the same build, which is in use as %s in %s", b[at].ID, b[at].Region)}
		}
	}
}

// runDeregister prints the users of old AMIs and deregisters the unused ones. A list
// that cannot be read counts as a user.
func (r retirement) runDeregister(cmd *cobra.Command, opened []*awsapi.AWS, now time.Time) error {
	told := r.begin(cmd)
	if r.output == "text" {
		told.p.line("%s", r.unseenUsers())
	}
	s, err := r.survey(cmd.Context(), opened, now)
	if err != nil {
		return err
	}
	old := slices.Concat(s.old...)
	for _, i := range old {
		if users := s.kept[i.ID]; users != nil {
			told.say("keep", i, "", users)
		}
	}
	if r.yes && len(s.kept) < len(old) { // survey again: a new user must not lose the AMI
		again, err := r.survey(cmd.Context(), opened, now)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(s.old, again.old) || !reflect.DeepEqual(s.kept, again.kept) {
			return errors.Join(errors.New("AMIs or their users changed during the search, and nothing was "+
				"deregistered; run eksnode ami retire again"), again.unseen)
		}
		s = again
	}
	var failed []error
	for _, i := range old {
		if s.kept[i.ID] == nil {
			failed = append(failed, r.remove(cmd.Context(), told, opened[0].In(i.Region), s.references[i.Region], i)...)
		}
	}
	return ended(told.end(s.all, "image"), s.unseen, failed)
}

// remove deregisters an AMI and deletes the snapshots that nothing else uses. A
// snapshot may be locked, or EC2 may still count the AMI as its user.
func (r retirement) remove(ctx context.Context, told *retiring, a *awsapi.AWS, references *awsapi.References,
	i awsapi.Image) []error {
	free, used := references.Leave(i)
	var stays map[string]error
	if r.yes {
		var err error
		if stays, err = a.Retire(ctx, i, free); err != nil {
			return []error{r.in(i.Region, err)}
		}
	}
	told.say("deregister", i, "", nil)
	var failed []error
	for _, snapshot := range slices.Sorted(maps.Keys(stays)) {
		failed = append(failed, r.in(i.Region, stays[snapshot]))
		used[snapshot] = []string{"unknown, because the snapshot could not be deleted"}
	}
	for _, snapshot := range slices.Sorted(maps.Keys(used)) {
		told.say("keep", i, snapshot, used[snapshot])
	}
	return failed
}
