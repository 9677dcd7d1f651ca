//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// retirement holds the flags of `eksnode ami retire`.
type retirement struct {
	regions
	keep, days              int
	deregister, orphan, yes bool
	output                  string
}

// retired is the change of one AMI or snapshot.
type retired struct {
	Action   string    `json:"action"` // deprecate, deregister, delete or keep
	Image    string    `json:"image,omitempty"`
	Region   string    `json:"region"`
	Name     string    `json:"name,omitempty"`
	Made     time.Time `json:"made"`
	Snapshot string    `json:"snapshot,omitempty"` // an orphan, or that of a deregistered AMI that is kept
	Why      string    `json:"why,omitempty"`      // of an orphan
	UsedBy   []string  `json:"used_by,omitempty"`
}

// retiring prints each change at once, or all changes as JSON at the end.
type retiring struct {
	retirement
	p       *printer
	entries []retired
	count   int
}

func (r retirement) begin(cmd *cobra.Command) *retiring {
	return &retiring{r, newPrinter(cmd.OutOrStdout()), []retired{}, 0}
}

func (r *retiring) say(action string, i awsapi.Image, snapshot string, users []string) {
	text := action + " " + r.called(i)
	if snapshot != "" {
		text = "keep the snapshot " + snapshot + " of " + r.place(i)
	}
	r.note(retired{Action: action, Image: i.ID, Region: i.Region, Name: i.Name, Made: i.Created, Snapshot: snapshot,
		UsedBy: users}, text)
}

func (r *retiring) note(change retired, text string) {
	if change.Action != "keep" {
		r.count++
	}
	r.entries = append(r.entries, change)
	switch {
	case r.output == "json":
	case change.UsedBy != nil:
		r.p.line("%s; used by: %s", text, strings.Join(change.UsedBy, ", "))
	default:
		r.p.line("%s", text)
	}
}

// end prints how many of all AMIs or orphans were retired.
func (r *retiring) end(all int, noun string) error {
	switch {
	case r.output == "json":
		return errors.Join(r.p.err,
			writeJSON(r.p.w, map[string]any{"done": r.yes, "retired": r.count, noun + "s": all, "changes": r.entries}))
	case r.yes:
		r.p.line("%d of %d %ss retired", r.count, all, noun)
	default:
		r.p.line("%d of %d %ss would be retired; --yes makes the changes", r.count, all, noun)
	}
	return r.p.err
}

func amiRetireCommand() *cobra.Command {
	var r retirement
	cmd := newCommand("retire", cobra.NoArgs, r.run)
	r.keep = 3
	r.days = 90
	bind(cmd, targets{
		"keep": &r.keep, "older-than": &r.days, "deregister": &r.deregister, "orphans": &r.orphan, "yes": &r.yes,
	})
	formatFlag(cmd, &r.output, "text", "json")
	r.flags(cmd)
	return cmd
}

// old selects the AMIs to retire: of each kind, those of builds that are older than
// --older-than and are not among the newest --keep. builds is sorted newest first. An
// AMI that is not available, such as a pending or failed one, is neither retired nor
// counted. A build is as old as its newest AMI.
func (r retirement) old(builds []awsapi.Build, now time.Time) []awsapi.Build {
	var list []awsapi.Build
	seen := map[string]int{}
	for _, b := range builds {
		young := r.isYoung(b[0].Created, now)
		kind := kindOf(b)
		b = slices.DeleteFunc(slices.Clone(b), func(i awsapi.Image) bool {
			return i.State != "available" || i.Created.IsZero() // without a date, the age is unknown
		})
		if len(b) == 0 {
			continue
		}
		seen[kind]++
		if seen[kind] > r.keep && !young {
			list = append(list, b)
		}
	}
	return list
}

// isYoung reports whether something is younger than --older-than.
func (r retirement) isYoung(made, now time.Time) bool { return made.After(now.AddDate(0, 0, -r.days)) }

// deprecated reports whether an AMI is deprecated, or will be within minutes. Builds
// may set a date in the far future.
func deprecated(i awsapi.Image, now time.Time) bool {
	return !i.Deprecated.IsZero() && i.Deprecated.Before(now.Add(5*time.Minute))
}

// kindOf returns the distribution, Kubernetes minor version and architecture: newer
// builds replace older ones of the same kind.
func kindOf(b awsapi.Build) string {
	marks := b.Marks()
	version := marks["kubernetes-version"]
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		version = parts[0] + "." + parts[1]
	}
	return marks["distro"] + " " + version + " " + b[0].Architecture
}

// called names an AMI by ID, name and date and, if there are several regions, region.
func (r retirement) called(i awsapi.Image) string {
	return fmt.Sprintf("%s (%s, made %s)", r.place(i), i.Name, i.Created.Format(time.DateOnly))
}

func (r retirement) place(i awsapi.Image) string {
	if r.several() {
		return i.ID + " in " + i.Region
	}
	return i.ID
}

// ended joins the errors of a run. The exit code is 1 if only changes failed.
func ended(printed, unseen error, failed []error) error {
	if err := errors.Join(failed...); err != nil && printed == nil && unseen == nil {
		return errors.Join(exitError(1), err)
	}
	return errors.Join(append([]error{printed, unseen}, failed...)...)
}

// unseenUsers lists users of AMIs that no call to AWS finds.
const unseenUsers = `Not checked: EC2NodeClasses and other objects in clusters, Image Builder recipes,
infrastructure code, SSM parameters of the type SecureString, other regions, and
other accounts without a launch permission. Check them yourself.`

func (r retirement) unseenUsers() string {
	if r.all {
		return strings.Replace(unseenUsers, " other regions,", "", 1)
	}
	return unseenUsers
}

func (r *retirement) run(cmd *cobra.Command, _ []string) error {
	if r.orphan && (r.deregister || cmd.Flags().Changed("keep")) {
		return errors.New("--orphans excludes --deregister and --keep; orphans are snapshots, and no AMIs")
	}
	if r.orphan && !cmd.Flags().Changed("older-than") {
		r.days = orphanDays
	}
	if r.keep < 1 || r.days < 0 {
		return errors.New("--keep must be at least 1, and --older-than at least 0")
	}
	now := time.Now()
	if r.orphan {
		return r.runOrphans(cmd, now)
	}
	opened, err := r.open(cmd.Context())
	if err != nil {
		return err
	}
	if r.deregister {
		return r.runDeregister(cmd, opened, now)
	}
	images, read, unread := imagesOf(cmd.Context(), opened, "self")
	if len(read) == 0 {
		return unread
	}
	told := r.begin(cmd)
	var errs []error
	builds := awsapi.NodeBuilds(images)
	for _, i := range slices.Concat(r.old(builds, now)...) {
		if deprecated(i, now) {
			continue // already retired
		}
		if r.yes { // EC2 requires a whole minute in the future
			at := now.Add(2 * time.Minute).Truncate(time.Minute)
			if err := opened[0].In(i.Region).Deprecate(cmd.Context(), i.ID, at); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		told.say("deprecate", i, "", nil)
	}
	return ended(told.end(len(slices.Concat(builds...)), "image"), unread, errs)
}

// orphanDays is the age of orphans to delete, unless --older-than is set: an interrupted
// upload can continue for up to three days.
const orphanDays = 3

func (r *regions) orphans(ctx context.Context) ([]awsapi.Orphan, []*awsapi.AWS, error) {
	r.all = r.all || len(r.names) == 0
	opened, err := r.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err := awsapi.Orphans(ctx, opened)
	return list, opened, err
}

func (r *regions) listOrphans(cmd *cobra.Command, output string) error {
	list, _, unread := r.orphans(cmd.Context())
	if len(list) == 0 && unread != nil {
		return unread
	}
	rows := [][]string{{"SNAPSHOT", "REGION", "STARTED", "SIZE", "STATE", "WHY"}}
	for _, o := range list {
		rows = append(rows, []string{
			o.ID, o.Region, o.Started.Format(time.DateOnly), fmt.Sprintf("%d GiB", o.Size), o.State, o.Why,
		})
	}
	return errors.Join(answer(cmd, output, append([]awsapi.Orphan{}, list...), func(p *printer) { p.table(rows) }),
		unread)
}

// runOrphans deletes orphans that are old enough and not shared.
func (r retirement) runOrphans(cmd *cobra.Command, now time.Time) error {
	list, opened, unread := r.orphans(cmd.Context())
	if len(list) == 0 && unread != nil {
		return unread
	}
	told := r.begin(cmd)
	var failed []error
	for _, o := range list {
		if r.isYoung(o.Started, now) {
			o.Why += ", younger than " + show.Count(r.days, "day")
			told.sayOrphan("keep", o, nil)
			continue
		}
		a := opened[0].In(o.Region)
		users, err := a.SharedWith(cmd.Context(), o.ID, o.Owner)
		if err == nil && len(users) > 0 {
			told.sayOrphan("keep", o, users)
			continue
		}
		if awsapi.IsNotFound(err) {
			continue // EC2 lists a deleted snapshot for some time
		}
		if err == nil && r.yes {
			err = a.RemoveSnapshot(cmd.Context(), o.ID)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("in %s: %w", o.Region, err))
			continue
		}
		told.sayOrphan("delete", o, nil)
	}
	return ended(told.end(len(list), "orphan"), unread, failed)
}

func (r *retiring) sayOrphan(action string, o awsapi.Orphan, users []string) {
	r.note(retired{Action: action, Region: o.Region, Made: o.Started, Snapshot: o.ID, Why: o.Why, UsedBy: users},
		fmt.Sprintf("%s the snapshot %s in %s (%s, %s, started %s)", action, o.ID, o.Region, o.Why, o.State,
			o.Started.Format(time.DateOnly)))
}
