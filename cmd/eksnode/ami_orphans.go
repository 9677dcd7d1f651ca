//go:build !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// orphanDays is the age of orphans to delete, unless --older-than is set: an interrupted
// upload can continue for up to three days.
const orphanDays = 3

// orphan is an orphan as JSON.
type orphan struct {
	Snapshot string            `json:"snapshot"`
	Region   string            `json:"region"`
	State    string            `json:"state"`
	Started  time.Time         `json:"started"`
	SizeGiB  int64             `json:"size_gib"`
	Why      string            `json:"why"`
	Tags     map[string]string `json:"tags"`
}

// orphans lists the orphans in the regions of the flags, by default in all regions.
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
	if output == "json" {
		all := []orphan{}
		for _, o := range list {
			all = append(all, orphan{o.ID, o.Region, o.State, o.Started, o.Size, o.Why, o.Tags})
		}
		return errors.Join(writeJSON(cmd.OutOrStdout(), all), unread)
	}
	return errors.Join(printOrphans(cmd.OutOrStdout(), list), unread)
}

func printOrphans(w io.Writer, list []awsapi.Orphan) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SNAPSHOT\tREGION\tSTARTED\tSIZE\tSTATE\tWHY")
	for _, o := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d GiB\t%s\t%s\n", o.ID, o.Region, o.Started.Format(time.DateOnly), o.Size, o.State, o.Why)
	}
	return t.Flush()
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
		if now.Sub(o.Started) < time.Duration(r.days)*24*time.Hour {
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

// sayOrphan prints an orphan with what happens to it.
func (r *retiring) sayOrphan(action string, o awsapi.Orphan, users []string) {
	r.note(retired{Action: action, Region: o.Region, Made: o.Started, Snapshot: o.ID, Why: o.Why, UsedBy: users},
		fmt.Sprintf("%s the snapshot %s in %s (%s, %s, started %s)", action, o.ID, o.Region, o.Why, o.State, o.Started.Format(time.DateOnly)))
}
