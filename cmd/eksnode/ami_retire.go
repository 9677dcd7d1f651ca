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

// retirement holds the flags of `eksnode ami retire`.
type retirement struct {
	aws             awsapi.Options
	keep, days      int
	deregister, yes bool
	output          string
}

// retired is the change of one AMI or snapshot.
type retired struct {
	Action   string    `json:"action"` // deprecate, deregister or keep
	Image    string    `json:"image"`
	Name     string    `json:"name"`
	Made     time.Time `json:"made"`
	Snapshot string    `json:"snapshot,omitempty"` // of a deregistered AMI, when the snapshot is kept
	UsedBy   []string  `json:"used_by,omitempty"`
}

// retiring prints each change at once, or all changes as JSON at the end.
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

// end prints how many of all AMIs were retired.
func (r *retiring) end(count, all int) error {
	switch {
	case r.output == "json":
		return errors.Join(r.p.err, writeJSON(r.p.w, map[string]any{"done": r.yes, "retired": count, "images": all, "changes": r.entries}))
	case r.yes:
		r.p.line("%d of %d images retired", count, all)
	default:
		r.p.line("%d of %d images would be retired; --yes makes the changes", count, all)
	}
	return r.p.err
}

func amiRetireCommand() *cobra.Command {
	var r retirement
	cmd := &cobra.Command{
		Use:   "retire",
		Short: "Deprecate old AMIs, or deregister unused ones",
		Long: `With --deregister, retire deletes unused AMIs and their snapshots. Without --yes,
retire only prints the changes. An AMI counts as used by an instance, a Spot
request, an SSM parameter of this account, a launch configuration, or a launch
permission for another account. Launch templates count with their latest and
default version, and with the versions in Auto Scaling groups, managed node
groups and fleets. If a list cannot be read, all AMIs count as used and the exit
code is 2.`,
		Example: `  eksnode ami retire --keep 3 --older-than 90
  eksnode ami retire --keep 3 --older-than 180 --deregister --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	cmd.Flags().IntVar(&r.keep, "keep", 3, "number of AMIs to keep for each distribution, Kubernetes minor version and architecture")
	cmd.Flags().IntVar(&r.days, "older-than", 90, "minimum age in days")
	cmd.Flags().BoolVar(&r.deregister, "deregister", false, "deregister unused AMIs and delete their snapshots")
	cmd.Flags().BoolVar(&r.yes, "yes", false, "make the changes (default: only print them)")
	formatFlag(cmd, &r.output, "text", "json")
	awsFlags(cmd, &r.aws)
	return cmd
}

// old selects the AMIs to retire: of each kind, those that are older than --older-than
// and are not among the newest --keep. images is sorted newest first. An AMI that is
// not available, such as a pending or failed one, is neither retired nor counted.
func (r retirement) old(images []awsapi.Image, now time.Time) []awsapi.Image {
	var list []awsapi.Image
	seen := map[string]int{}
	for _, i := range images {
		if i.State != "available" || i.Created.IsZero() { // without a date, the age is unknown
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

// deprecated reports whether an AMI is deprecated, or will be within minutes. Builds
// may set a date in the far future.
func deprecated(i awsapi.Image, now time.Time) bool {
	return !i.Deprecated.IsZero() && i.Deprecated.Before(now.Add(5*time.Minute))
}

// kindOf returns the distribution, Kubernetes minor version and architecture: newer
// AMIs replace older ones of the same kind.
func kindOf(i awsapi.Image) string {
	version := i.Tags[awsapi.TagPrefix+"kubernetes-version"]
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		version = parts[0] + "." + parts[1]
	}
	return i.Tags[awsapi.TagPrefix+"distro"] + " " + version + " " + i.Architecture
}

// unseenUsers lists users of AMIs that no call to AWS finds.
const unseenUsers = `Not checked: EC2NodeClasses and other objects in clusters, Image Builder recipes,
infrastructure code, SSM parameters of the type SecureString, other regions, and
other accounts without a launch permission. Check them yourself.`

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
			continue // already retired
		}
		if r.yes { // EC2 requires a whole minute in the future
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

// called names an AMI by ID, name and date.
func called(i awsapi.Image) string {
	return fmt.Sprintf("%s (%s, made %s)", i.ID, i.Name, i.Created.Format(time.DateOnly))
}

// survey holds the AMIs to retire, and their users.
type survey struct {
	all        int
	old        []awsapi.Image
	references *awsapi.References
	// kept lists the users of the AMIs to keep, by AMI ID.
	kept map[string][]string
	// unseen joins the errors of lists that could not be read.
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
			users = append(users, "unknown, because a list could not be read")
		}
		s.unseen = errors.Join(s.unseen, err)
		if len(users) > 0 {
			s.kept[i.ID] = users
		}
	}
	return s, nil
}

// same reports whether another survey has the same result.
func (s survey) same(other survey) bool {
	return reflect.DeepEqual(s.old, other.old) && reflect.DeepEqual(s.kept, other.kept)
}

// runDeregister prints the users of old AMIs and deregisters the unused ones. A list
// that cannot be read counts as a user.
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
	if r.yes && len(s.kept) < len(s.old) { // survey again: a new user must not lose the AMI
		again, err := r.survey(cmd, a, now)
		if err != nil {
			return err
		}
		if !s.same(again) {
			return errors.Join(errors.New("AMIs or their users changed during the search, and nothing was deregistered; run eksnode ami retire again"), again.unseen)
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
