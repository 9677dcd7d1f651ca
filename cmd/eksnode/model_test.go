//go:build linux && !agent

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// aged adds three builds of one kind, each with a copy: ami-0000000N and ami-1000000N.
// The numbers grow with the age.
func aged(w *aws.World, _ string) error {
	for n := range 3 {
		for r, region := range aws.LightRegions {
			id := fmt.Sprintf("%d000000%d", r, n)
			i := aws.NewImage("ami-"+id, fmt.Sprintf("node-%d", n), aws.Account, time.Now().UTC().AddDate(0, 0, -1-100*n).Format("2006-01-02T15:04:05.000Z"))
			i.Region, i.Devices = region, []aws.Drive{{Name: "/dev/xvda", Snapshot: "snap-" + id, Size: 1, Type: "gp3"}}
			i.Tags = []aws.Tag{{Key: "eksnode:distro", Value: "debian"}, {Key: "eksnode:kubernetes-version", Value: "1.34.2"}, {Key: "eksnode:build", Value: fmt.Sprint(n)}}
			if r > 0 {
				i.Source, i.SourceRegion = fmt.Sprintf("ami-0000000%d", n), aws.Region
			}
			w.Images = append(w.Images, i)
			w.Snapshots = append(w.Snapshots, &aws.Snapshot{Region: region, ID: "snap-" + id, State: ebsdirect.Completed, Owner: aws.Account, Size: 1, Tags: i.Tags})
		}
		for _, region := range aws.LightRegions {
			w.PutLight(region, "/n/stable", fmt.Sprintf("ami-%d0000001", slices.Index(aws.LightRegions, region)))
			w.PutLight(region, "/n/candidate", fmt.Sprintf("ami-%d0000000", slices.Index(aws.LightRegions, region)))
		}
	}
	orphan := *w.Snapshots[0]
	orphan.ID, orphan.Started = "snap-77777777", "2026-01-01T00:00:00.000Z"
	w.Snapshots = append(w.Snapshots, &orphan)
	return nil
}

// fleetState is what is in the account. Times of deprecation are only yes or no.
func fleetState(w *aws.World) string {
	var lines []string
	for _, i := range w.Images {
		lines = append(lines, fmt.Sprintf("%s %s deprecated %t shared %v", i.ID, i.Region, i.Deprecated != "", i.Shares))
	}
	for _, s := range w.Snapshots {
		lines = append(lines, s.ID)
	}
	for _, region := range aws.LightRegions {
		for _, name := range []string{"/n/stable", "/n/candidate", "/n/new"} {
			lines = append(lines, region+" "+name+" "+w.LightParameter(region, name))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// parametersHold says that every parameter names an AMI that is there.
func parametersHold(w *aws.World, _ string) error {
	for _, region := range aws.LightRegions {
		for _, name := range []string{"/n/stable", "/n/candidate", "/n/new"} {
			if id := w.LightParameter(region, name); id != "" && (w.Image(id) == nil || w.Image(id).Region != region) {
				return errors.New("a parameter names no AMI of its region")
			}
		}
	}
	return nil
}

// orphans says that no snapshot of ours is left without its AMI, unless the error names
// it.
func orphans(w *aws.World, _ string, failure error) error {
	for _, s := range w.Snapshots {
		if s.ID != "snap-77777777" && w.Image(strings.Replace(s.ID, "snap", "ami", 1)) == nil && !strings.Contains(failure.Error(), s.ID) {
			return errors.New("a snapshot is left that has no AMI")
		}
	}
	return nil
}

// fleets are the scenarios of commands that change AMIs and parameters.
func fleets(t *testing.T) (all []aws.Scenario) {
	t.Helper()
	aws.Environment(t)
	for name, run := range map[string]func(cmd *cobra.Command, r regions) error{
		"publish": func(cmd *cobra.Command, r regions) error {
			return publishing{regions: r, parameter: "/n/new", output: "text"}.run(cmd, "ami-00000000")
		},
		"promote": func(cmd *cobra.Command, r regions) error {
			return promotion{regions: r, from: "/n/candidate", to: "/n/stable", output: "text"}.run(cmd)
		},
		"retire": func(cmd *cobra.Command, r regions) error {
			return retirement{regions: r, keep: 2, days: 90, yes: true, output: "text"}.run(cmd)
		},
		"retire --deregister": func(cmd *cobra.Command, r regions) error {
			return retirement{regions: r, keep: 2, days: 90, yes: true, deregister: true, output: "text"}.run(cmd)
		},
		"retire --orphans": func(cmd *cobra.Command, r regions) error {
			return retirement{regions: r, keep: 3, days: 3, yes: true, orphan: true, output: "text"}.run(cmd)
		},
	} {
		all = append(all, aws.Scenario{
			Name: name, Begin: aged, State: fleetState, Moment: parametersHold, Left: orphans,
			Run: func(ctx context.Context, client *http.Client, _ string) error {
				cmd := &cobra.Command{}
				cmd.SetContext(ctx)
				cmd.SetOut(io.Discard)
				return run(cmd, regions{aws: awsapi.Options{HTTP: client, Settle: 1, Pause: 1}, names: aws.LightRegions})
			},
		})
	}
	return all
}

// Whatever AWS answers, parameters name AMIs that are there, and nothing is left over.
func TestFleetsKeepTheirPromises(t *testing.T) {
	for _, s := range fleets(t) {
		t.Run(s.Name, func(t *testing.T) { s.Sample(t, 40) })
	}
}
