//go:build linux

package aws

import (
	"context"
	"encoding/xml"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// DenyRegion refuses every call in a region, like a service control policy.
func (w *World) DenyRegion(region string) { w.Deny(region) }

// CutRegion closes every connection to a region without a response.
func (w *World) CutRegion(region string) {
	w.faults.Lock()
	defer w.faults.Unlock()
	w.cut = append(w.cut, region)
}

// Copy copies an image to a region like CopyImage, and returns the copy.
func (w *World) Copy(named, region, id string, tags bool) *Image {
	w.t.Helper()
	source := w.Image(named)
	made := *source
	made.Region, made.ID, made.SourceInstance, made.Shares = region, id, "", nil
	made.Source, made.SourceRegion = source.ID, source.Region
	if !tags {
		made.Tags = nil
	}
	made.Devices, made.Tags = slices.Clone(made.Devices), slices.Clone(made.Tags)
	for n := range made.Devices {
		made.Devices[n].Snapshot = strings.Replace(id, "ami", "snap", 1)
		w.Snapshots = append(w.Snapshots, &Snapshot{Region: region, ID: made.Devices[n].Snapshot, State: "completed", Owner: Account})
	}
	w.Images = append(w.Images, &made)
	return &made
}

// PutIn writes a parameter of type String in a region.
func (w *World) PutIn(region, name, value string) {
	w.t.Helper()
	w.DoIn(region, "ssm:PutParameter", `{"Name":"`+name+`","Value":"`+value+`","Type":"String","Overwrite":true}`)
}

type region struct {
	Name     string `xml:"regionName"`
	Endpoint string `xml:"regionEndpoint"`
	Status   string `xml:"optInStatus"`
}

type regionsOut struct {
	Regions []region `xml:"regionInfo>item"`
}

// describeRegions takes the regions from moto. moto also returns regions of other
// partitions and, unless asked for all, regions that are not enabled.
func (w *World) describeRegions(ctx context.Context, call endpoint.Call, in struct {
	All   bool     `query:"AllRegions"`
	Names []string `query:"RegionName"`
}) (regionsOut, error) {
	raw, err := w.forward(ctx, call)
	if err != nil {
		return regionsOut{}, err
	}
	var all, out regionsOut
	if err := xml.Unmarshal(raw.Body, &all); err != nil {
		return out, err
	}
	for _, r := range all.Regions {
		if strings.HasPrefix(r.Name, "cn-") || strings.HasPrefix(r.Name, "us-gov-") {
			continue
		}
		if len(w.Enabled) > 0 && !slices.Contains(w.Enabled, r.Name) {
			r.Status = "not-opted-in"
		}
		if in.All || r.Status != "not-opted-in" {
			out.Regions = append(out.Regions, r)
		}
	}
	return out, nil
}
