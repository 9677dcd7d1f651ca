//go:build !agent

package main

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// retirement says which images are retired, and how.
type retirement struct {
	aws             awsapi.Options
	keep, days      int
	deregister, yes bool
	output          string
}

// retired is what becomes of one image or snapshot.
type retired struct {
	Action   string    `json:"action"` // deprecate, deregister or keep
	Image    string    `json:"image"`
	Name     string    `json:"name"`
	Made     time.Time `json:"made"`
	Snapshot string    `json:"snapshot,omitempty"` // that is kept, where the image is not
	UsedBy   []string  `json:"used_by,omitempty"`
}

// retiring tells what becomes of images, as it happens or, in JSON, at the end.
type retiring struct {
	retirement
	p       *printer
	entries []retired
}

func (r retirement) begin(cmd *cobra.Command) *retiring {
	return &retiring{r, newPrinter(cmd.OutOrStdout()), []retired{}}
}

func (r *retiring) say(action string, i awsapi.Image, snapshot string, users []string) {
	r.entries = append(r.entries, retired{action, i.ID, i.Name, i.Created, snapshot, users})
	switch {
	case r.output == "json":
	case snapshot != "":
		r.p.line("keep the snapshot %s of %s; used by: %s", snapshot, i.ID, strings.Join(users, ", "))
	case users != nil:
		r.p.line("%s %s; used by: %s", action, called(i), strings.Join(users, ", "))
	default:
		r.p.line("%s %s", action, called(i))
	}
}

// end sums up how many of all images went.
func (r *retiring) end(count, all int) error {
	switch {
	case r.output == "json":
		return errors.Join(r.p.err, writeJSON(r.p.w, map[string]any{"done": r.yes, "retired": count, "images": all, "changes": r.entries}))
	case r.yes:
		r.p.line("%d of %d images retired", count, all)
	default:
		r.p.line("%d of %d images would be retired; --yes does it", count, all)
	}
	return r.p.err
}

func amiRetireCommand() *cobra.Command {
	var r retirement
	cmd := &cobra.Command{
		Use:   "retire",
		Short: "Deprecate old images, or deregister those that nothing refers to",
		Long: `Retire deprecates images or, with --deregister, takes them and their snapshots
away. Without --yes it only says which.

An image that something refers to is never taken away: an instance, a Spot request,
an SSM parameter of this account, the latest or default version of a launch
template, a version that an Auto Scaling group, a managed node group or a fleet
uses, a launch configuration, or a launch permission for somebody else. A list
that cannot be read counts as a reference; the exit code is then 2.`,
		Example: `  eksnode ami retire --keep 3 --older-than 90
  eksnode ami retire --keep 3 --older-than 180 --deregister --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	cmd.Flags().IntVar(&r.keep, "keep", 3, "number of images of each distribution, Kubernetes minor version and processor that stay")
	cmd.Flags().IntVar(&r.days, "older-than", 90, "minimum age of an image, in days")
	cmd.Flags().BoolVar(&r.deregister, "deregister", false, "take images away that nothing refers to, and their snapshots")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "do it")
	formatFlag(cmd, &r.output, "text", "json")
	awsFlags(cmd, &r.aws)
	return cmd
}

// old picks the images that go: of each kind, those older than the newest ones
// that stay. Images come newest first. What is not available, as it is being made
// or could not be, neither goes nor takes a place among those that stay.
func (r retirement) old(images []awsapi.Image, now time.Time) []awsapi.Image {
	var list []awsapi.Image
	seen := map[string]int{}
	for _, i := range images {
		if i.State != "available" || i.Created.IsZero() { // nobody knows how old the latter is
			continue
		}
		kind := kindOf(i)
		seen[kind]++
		if seen[kind] > r.keep && now.Sub(i.Created) >= time.Duration(r.days)*24*time.Hour {
			list = append(list, i)
		}
	}
	return list
}

// deprecated says whether an image is, or will be within minutes. Builds may set
// a date that is far away.
func deprecated(i awsapi.Image, now time.Time) bool {
	return !i.Deprecated.IsZero() && i.Deprecated.Before(now.Add(5*time.Minute))
}

// kindOf is what images replace one another in.
func kindOf(i awsapi.Image) string {
	version := i.Tags[awsapi.TagPrefix+"kubernetes-version"]
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		version = parts[0] + "." + parts[1]
	}
	return i.Tags[awsapi.TagPrefix+"distro"] + " " + version + " " + i.Architecture
}

// unseenUsers is who may need an image without being seen from here.
const unseenUsers = `Not seen from here: EC2NodeClasses and other objects in clusters, Image Builder
recipes, infrastructure code, SSM parameters of the type SecureString, other
regions, and other accounts without a launch permission. Check them yourself.`

func (r retirement) run(cmd *cobra.Command) error {
	if r.keep < 1 || r.days < 0 {
		return errors.New("--keep must be at least 1, and --older-than at least 0")
	}
	a, err := awsapi.Open(cmd.Context(), r.aws)
	if err != nil {
		return err
	}
	now := time.Now()
	if r.deregister {
		return r.runDeregister(cmd, a, now)
	}
	images, err := a.OwnImages(cmd.Context())
	if err != nil {
		return err
	}
	told := r.begin(cmd)
	var errs []error
	count := 0
	for _, i := range r.old(images, now) {
		if deprecated(i, now) {
			continue // it is retired already
		}
		if r.yes { // EC2 takes whole minutes, in the future
			if err := a.Deprecate(cmd.Context(), i.ID, now.Add(2*time.Minute).Truncate(time.Minute)); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		told.say("deprecate", i, "", nil)
		count++
	}
	return errors.Join(append(errs, told.end(count, len(images)))...)
}

// called is an image as people know it.
func called(i awsapi.Image) string {
	return fmt.Sprintf("%s (%s, made %s)", i.ID, i.Name, i.Created.Format(time.DateOnly))
}

// survey is what may go, and what refers to it.
type survey struct {
	all        int
	old        []awsapi.Image
	references *awsapi.References
	// kept are the reasons to keep images, by their ids.
	kept map[string][]string
	// unseen is what could not be seen.
	unseen error
}

func (r retirement) survey(cmd *cobra.Command, a *awsapi.AWS, now time.Time) (survey, error) {
	images, err := a.OwnImages(cmd.Context())
	if err != nil {
		return survey{}, err
	}
	s := survey{all: len(images), old: r.old(images, now), kept: map[string][]string{}}
	s.references = a.References(cmd.Context(), s.old)
	s.unseen = s.references.Unseen()
	for _, i := range s.old {
		users, err := s.references.Of(i.ID)
		if err != nil || s.references.Unseen() != nil {
			users = append(users, "unknown, as something could not be seen")
		}
		s.unseen = errors.Join(s.unseen, err)
		if len(users) > 0 {
			s.kept[i.ID] = users
		}
	}
	return s, nil
}

// same says whether another survey found the same.
func (s survey) same(other survey) bool {
	return reflect.DeepEqual(s.old, other.old) && reflect.DeepEqual(s.kept, other.kept)
}

// runDeregister says what refers to old images, and takes those away that nothing
// refers to. What it could not see, it takes for a reference.
func (r retirement) runDeregister(cmd *cobra.Command, a *awsapi.AWS, now time.Time) error {
	told := r.begin(cmd)
	if r.output == "text" {
		told.p.line("%s", unseenUsers)
	}
	s, err := r.survey(cmd, a, now)
	if err != nil {
		return err
	}
	for _, i := range s.old {
		if users := s.kept[i.ID]; users != nil {
			told.say("keep", i, "", users)
		}
	}
	if r.yes && len(s.kept) < len(s.old) { // look again, so that nothing is taken from somebody who came meanwhile
		again, err := r.survey(cmd, a, now)
		if err != nil {
			return err
		}
		if !s.same(again) {
			return errors.Join(errors.New("images, or what refers to them, changed while this looked: nothing was taken away; run it again"), again.unseen)
		}
		s = again
	}
	errs := []error{s.unseen}
	count := 0
	for _, i := range s.old {
		if s.kept[i.ID] != nil {
			continue
		}
		free, used := s.references.Leave(i)
		if r.yes {
			if err := a.Deregister(cmd.Context(), i.ID, free); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		told.say("deregister", i, "", nil)
		for _, snapshot := range slices.Sorted(maps.Keys(used)) {
			told.say("keep", i, snapshot, used[snapshot])
		}
		count++
	}
	return errors.Join(append(errs, told.end(count, s.all))...)
}
