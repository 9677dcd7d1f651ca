package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// hardware reads the state of an instance, and for nodes that are started later the
// offerings of their instance types and the keys of their disks.
func (f *facts) hardware(ctx context.Context, a *awsapi.AWS) {
	f.health = after(f.launch, func(l awsapi.Launch) fact[awsapi.Health] {
		if l.State != "running" {
			return fact[awsapi.Health]{absent: true}
		}
		return learn(a.Health(ctx, f.target.Instance))
	})
	f.offerings = after(f.types, func(all []awsapi.InstanceType) fact[[]string] {
		if f.subnets.err != nil || f.target.Instance != "" || len(all) == 0 {
			return fact[[]string]{err: f.subnets.err, absent: f.subnets.err == nil}
		}
		return learn(a.OfferingZones(ctx, f.typeNames(), f.zones()))
	})
	f.quotas = after(f.types, func(types []awsapi.InstanceType) fact[[]awsapi.Quota] {
		if f.target.Instance != "" || len(types) == 0 || f.group.value.Capacity == "SPOT" {
			return fact[[]awsapi.Quota]{absent: true}
		}
		return all(types, func(t awsapi.InstanceType) (awsapi.Quota, error) { return a.VCPUQuota(ctx, t.Name) })
	})
	f.freePlan = after(f.types, func(all []awsapi.InstanceType) fact[bool] {
		notFree := func(t awsapi.InstanceType) bool { return !t.FreePlan }
		if f.target.Instance != "" || partition(f.cluster.value.ARN) != "aws" || !slices.ContainsFunc(all, notFree) {
			return fact[bool]{absent: true}
		}
		return learn(a.OnFreePlan(ctx))
	})
	f.spotRole = fact[awsapi.Role]{absent: true}
	if f.target.NodeClass != nil || f.group.value.Capacity == "SPOT" {
		f.spotRole = learn(a.Role(ctx, spotRole))
	}
	f.keys = f.keysOf(ctx, a)
}

// spotRole is the role that EC2 Spot needs in an account
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html).
const spotRole = "AWSServiceRoleForEC2Spot"

func checkSpotRole(f *facts) *result {
	switch {
	case f.spotRole.absent:
		return &result{verdict: notHere}
	case awsapi.IsNotFound(f.spotRole.err):
		return maybe("aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
			"the account has no role %s, and the first Spot instance starts only if the caller may create it", spotRole)
	case f.spotRole.err != nil:
		return f.unseen(f.spotRole.err)
	}
	return good("%s is there", spotRole)
}

// checkQuota compares the types with quotas of vCPUs. Instances that run use them too.
func checkQuota(f *facts) *result {
	var small, fits []string
	remedy := ""
	for n, t := range f.types.value {
		switch q := f.quotas.value[n]; {
		case q.Code == "" || t.VCPUs == 0:
			fits = append(fits, t.Name+" is of a family whose quota is not known here")
		case q.Limit < t.VCPUs:
			small = append(small, fmt.Sprintf("%s has %s, but the account may have %d of %s", t.Name,
				show.Count(t.VCPUs, "vCPU"), q.Limit, q.Name))
			remedy = fmt.Sprintf("aws service-quotas request-service-quota-increase --service-code ec2 "+
				"--quota-code %s --desired-value %d", q.Code, max(32, 4*t.VCPUs))
		default:
			fits = append(fits, fmt.Sprintf("%s has %s of at most %d that may run", t.Name, show.Count(t.VCPUs, "vCPU"),
				q.Limit))
		}
	}
	switch {
	case len(small) == len(f.types.value):
		return bad(remedy, "%s", strings.Join(small, "; "))
	case len(small) > 0:
		return maybe(remedy, "%s", strings.Join(small, "; "))
	}
	return good("%s", strings.Join(fits, "; "))
}

// checkPlan checks the types that an account on the free plan may start.
func checkPlan(f *facts) *result {
	if !f.freePlan.value {
		return good("the account is not on the free plan")
	}
	refused := slices.DeleteFunc(f.typeNames(), func(name string) bool {
		return slices.ContainsFunc(f.types.value, func(t awsapi.InstanceType) bool {
			return t.Name == name && t.FreePlan
		})
	})
	says := maybe
	if len(refused) == len(f.types.value) {
		says = bad
	}
	return says("aws ec2 describe-instance-types --filters Name=free-tier-eligible,Values=true "+
		"--query InstanceTypes[].InstanceType", "the account is on AWS's free plan, which lacks %s",
		strings.Join(refused, ", "))
}

func (f *facts) typeNames() []string {
	return show.Each(f.types.value, func(t awsapi.InstanceType) string { return t.Name })
}

func (f *facts) zones() []string {
	return unique(show.Each(f.subnets.value, func(s awsapi.Subnet) string { return s.Zone }))
}

func checkInstanceState(f *facts) *result {
	var ended *awsapi.EndedError
	l := f.launch.value
	switch {
	case errors.As(f.launch.err, &ended):
		why := " --query Reservations[].Instances[].[State.Name,StateReason.Message,StateTransitionReason]"
		return bad("aws ec2 describe-instances --instance-ids "+f.target.Instance+why, "the instance is %s%s",
			ended.State, reason(ended.Reason)).because(causeOf(f.launch.err))
	case f.launch.err != nil && strings.Contains(f.launch.err.Error(), "InvalidInstanceID.NotFound"):
		r := f.unseen(f.launch.err)
		r.evidence += "; EC2 forgets instances about an hour after their end"
		return r
	case f.launch.err != nil:
		return f.unseen(f.launch.err)
	case l.State == "stopped":
		return bad("aws ec2 start-instances --instance-ids "+f.target.Instance, "the instance is stopped%s",
			reason(l.StateReason))
	case l.State == "stopping":
		return bad("aws ec2 wait instance-stopped --instance-ids "+f.target.Instance+
			" && aws ec2 start-instances --instance-ids "+f.target.Instance, "the instance is stopping%s",
			reason(l.StateReason))
	case l.State == "pending":
		return maybe("aws ec2 wait instance-running --instance-ids "+f.target.Instance, "the instance is pending%s",
			reason(l.StateReason))
	}
	return f.healthy()
}

// reason explains the reasons of EC2 that have one frequent cause
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html).
func reason(said string) string {
	if said == "" {
		return ""
	}
	for code, means := range texts().Reasons {
		if strings.HasPrefix(said, code) {
			return fmt.Sprintf(" (%s: %s)", said, means)
		}
	}
	return " (" + said + ")"
}

func (f *facts) healthy() *result {
	h, id := f.health.value, f.target.Instance
	describe := "aws ec2 describe-instance-status --instance-ids " + id
	switch {
	case f.health.err != nil:
		return f.unseen(f.health.err)
	case h.System == "impaired":
		return bad(describe, "EC2's system status check fails: the host has a fault, so replace the instance, or stop "+
			"and start it to move it to another host")
	case h.Instance == "impaired":
		return bad("aws ec2 get-console-output --latest --output text --instance-id "+id,
			"EC2's instance status check fails: the system does not answer to ARP requests")
	case h.Storage == "impaired":
		return bad(describe, "EC2's check of the attached EBS volumes fails: a volume does not complete its I/O")
	case len(h.Events) > 0:
		return maybe(describe, "EC2 has scheduled an event: %s", strings.Join(h.Events, ", "))
	case h.System == "initializing" || h.Instance == "initializing" || h.Storage == "initializing":
		return good("running, the status checks are initializing")
	}
	return good("running, no status check fails")
}

func checkTypeZone(f *facts) *result {
	switch {
	case f.target.Instance != "" || f.types.absent && !f.launch.value.Requirements:
		return &result{verdict: notHere}
	case f.types.err != nil:
		return f.unseen(f.types.err)
	case f.types.absent:
		return good("the launch template has requirements, and EC2 chooses the type")
	case f.offerings.err != nil:
		return f.unseen(f.offerings.err)
	}
	names := strings.Join(f.typeNames(), ", ")
	var with, without []string
	for _, zone := range f.zones() {
		if slices.Contains(f.offerings.value, zone) {
			with = append(with, zone)
		} else {
			without = append(without, zone)
		}
	}
	remedy := "aws ec2 describe-instance-type-offerings --location-type availability-zone --filters " +
		"Name=instance-type,Values=" + strings.Join(f.typeNames(), ",") +
		" --query InstanceTypeOfferings[].[InstanceType,Location] --output text"
	switch {
	case len(with) == 0:
		return bad(remedy, "EC2 does not offer %s in %s", names, strings.Join(without, ", "))
	case len(without) > 0:
		return maybe(remedy, "EC2 offers %s in %s, but not in %s", names, strings.Join(with, ", "),
			strings.Join(without, ", "))
	}
	return good("%s in %s", names, strings.Join(with, ", "))
}

// checkTypeImage checks what EC2 demands of an image and an instance type together
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ami-boot.html).
func checkTypeImage(f *facts) *result {
	i, not := f.seenImage()
	switch {
	case f.image.absent:
		return &result{verdict: notHere}
	case not != nil:
		return not
	}
	old := ""
	for _, t := range f.types.value {
		if fault := unfit(i, t); fault != "" {
			return bad(typesFor(i.Architecture), "%s", fault)
		}
		if !t.Current {
			old = t.Name
		}
	}
	if old != "" {
		return maybe(typesFor(i.Architecture), "%s is of a previous generation, for which EC2 has little capacity", old)
	}
	return good("%s boot %s", strings.Join(f.typeNames(), ", "), i.ID)
}

// unfit is why a type cannot boot an image, or empty.
func unfit(i awsapi.Image, t awsapi.InstanceType) string {
	lacks := func(list []string, value string) bool {
		return len(list) > 0 && value != "" && !slices.Contains(list, value)
	}
	switch {
	case i.BootMode == "uefi" && lacks(t.BootModes, "uefi"),
		i.BootMode == "legacy-bios" && lacks(t.BootModes, "legacy-bios"):
		return fmt.Sprintf("the image has the boot mode %s, but %s supports only %s", i.BootMode, t.Name,
			strings.Join(t.BootModes, ", "))
	case i.TPM != "" && !t.TPM:
		return fmt.Sprintf("the image needs a NitroTPM, but %s has none", t.Name)
	case lacks(t.Virtualization, i.Virtualization):
		return fmt.Sprintf("the image has the virtualization %s, but %s supports only %s", i.Virtualization, t.Name,
			strings.Join(t.Virtualization, ", "))
	}
	return ""
}

// rootNames are the usual names of root devices. A disk with such a name was meant
// for the root device.
func rootNames() []string { return []string{"/dev/xvda", "/dev/sda1", "/dev/sda", "xvda", "sda1"} }

func checkDisks(f *facts) *result {
	i, not := f.seenImage()
	switch {
	case f.target.Instance != "" || f.target.NodeClass != nil || f.launch.absent || f.image.absent:
		return &result{verdict: notHere}
	case f.launch.err != nil:
		return f.unseen(f.launch.err)
	case not != nil:
		return not
	}
	var seen []string
	for _, d := range f.launch.value.Devices {
		n := slices.IndexFunc(i.Devices, func(of awsapi.BlockDevice) bool { return of.Name == d.Name })
		describe := "aws ec2 describe-images --image-ids " + i.ID +
			" --query Images[].[RootDeviceName,BlockDeviceMappings]"
		switch {
		case n >= 0 && d.Size > 0 && d.Snapshot == "" && d.Size < i.Devices[n].Size:
			return bad(describe, "%s makes %s with %d GiB, but the image's snapshot has %d GiB: EC2 refuses "+
				"smaller disks", f.launch.value.From, d.Name, d.Size, i.Devices[n].Size)
		case n < 0 && d.Name != i.RootDevice && slices.Contains(rootNames(), d.Name):
			return maybe(describe, "%s sets the disk %s, but the image's root device is %s: the root disk keeps the "+
				"image's size, and %s is a second, empty disk", f.launch.value.From, d.Name, i.RootDevice, d.Name)
		}
		seen = append(seen, d.Name)
	}
	if len(seen) == 0 {
		return good("those of the image")
	}
	return good("%s", strings.Join(seen, ", "))
}
