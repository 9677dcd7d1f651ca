package instance

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

// table imitates EC2 and records the requests.
type table struct {
	name   string
	limits Limits
	err    error
	asked  []string
}

func (e *table) PrivateDNSName(_ context.Context, region, id string) (string, error) {
	e.asked = append(e.asked, "name of "+id+" in "+region)
	return e.name, e.err
}

func (e *table) InstanceLimits(_ context.Context, region, name string) (Limits, error) {
	e.asked = append(e.asked, "limits of "+name+" in "+region)
	return e.limits, e.err
}

func gather(t *testing.T, i imdstest.Instance, ec2 *table, want Wants) (Facts, []string, []string, error) {
	t.Helper()
	s := imdstest.Serve(i)
	t.Cleanup(s.Close)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", s.URL)
	c, err := firstboot.OpenMetadata(t.Context())
	require.NoError(t, err)
	c.Attempts = 2
	f, warnings, err := Gather(t.Context(), c, ec2, want)
	return f, warnings, s.Requests(), err
}

func TestTypicalInstanceNeedsNoAPI(t *testing.T) {
	ec2 := &table{}
	f, warnings, requests, err := gather(t, imdstest.Typical(), ec2, Wants{PrivateDNSName: true, Limits: true})
	require.NoError(t, err)
	assert.Equal(t, Facts{
		ID: "i-0123456789abcdef0", Type: "m5.large", Region: "eu-west-1", Zone: "eu-west-1a", MAC: "02:00:00:00:00:01",
		PrivateDNSName: "ip-10-0-1-2.eu-west-1.compute.internal", Address: "10.0.1.2", Limits: Limits{ENIs: 3, IPsPerENI: 10},
	}, f)
	assert.Empty(t, warnings)
	assert.Empty(t, ec2.asked)
	assert.Equal(t, []string{"api/token", "dynamic/instance-identity/document", "meta-data/mac", "meta-data/local-ipv4", "meta-data/local-hostname"}, requests)
	assert.Equal(t, 29, f.MaxPods())
}

func TestOnlyNeededMetadataIsRequested(t *testing.T) {
	i := imdstest.Typical()
	i.IPv6 = "fd00::5\nfd00::6"
	i.VPCCIDRs = []string{"10.0.0.0/16", "100.64.0.0/16"}
	f, _, requests, err := gather(t, i, &table{}, Wants{IPv6: true, VPCNetworks: true, Domain: true})
	require.NoError(t, err)
	assert.Equal(t, "fd00::5", f.Address)
	assert.Equal(t, []string{"10.0.0.0/16", "100.64.0.0/16"}, f.VPCNetworks)
	assert.Equal(t, "amazonaws.com", f.Domain)
	assert.Empty(t, f.PrivateDNSName)
	assert.False(t, slices.Contains(requests, "meta-data/local-hostname"))
	assert.Equal(t, DefaultMaxPods, f.MaxPods())
}

func TestEC2NamesAreRecognized(t *testing.T) {
	for _, c := range []struct {
		region, name string
		own          bool
	}{
		{"eu-west-1", "ip-10-0-1-2.eu-west-1.compute.internal", true},
		{"eu-west-1", "i-0123456789abcdef0.eu-west-1.compute.internal", true},
		{"us-east-1", "ip-10-0-1-2.ec2.internal", true},
		{"us-east-1", "i-0123456789abcdef0.us-east-1.compute.internal", true},
		{"cn-north-1", "ip-10-0-1-2.cn-north-1.compute.internal", true},
		{"us-east-1", "ip-10-0-1-2.us-east-1.compute.internal", false},
		{"eu-west-1", "ip-10-0-1-2.ec2.internal", false},
		{"eu-west-1", "ip-10-0-1-2.example.com", false},
		{"eu-west-1", "ip-10-0-1-2", false},
		{"eu-west-1", "ip-10-0-1-3.eu-west-1.compute.internal", false},
		{"eu-west-1", "i-fff.eu-west-1.compute.internal", false},
		{"eu-west-1", "ip-x.eu-west-1.compute.internal", false},
	} {
		i := imdstest.Typical()
		i.Region, i.Hostname = c.region, c.name
		ec2 := &table{name: "from-ec2"}
		f, _, _, err := gather(t, i, ec2, Wants{PrivateDNSName: true})
		require.NoError(t, err)
		if c.own {
			assert.Equal(t, c.name, f.PrivateDNSName)
			assert.Empty(t, ec2.asked)
		} else {
			assert.Equal(t, "from-ec2", f.PrivateDNSName)
			assert.Equal(t, []string{"name of i-0123456789abcdef0 in " + c.region}, ec2.asked)
		}
	}
}

func TestLimitsOfUnknownTypesComeFromEC2(t *testing.T) {
	i := imdstest.Typical()
	i.Type = "z99.large"
	ec2 := &table{limits: Limits{ENIs: 4, IPsPerENI: 15}}
	f, warnings, _, err := gather(t, i, ec2, Wants{Limits: true})
	require.NoError(t, err)
	assert.Equal(t, 58, f.MaxPods())
	assert.Empty(t, warnings)
	assert.Equal(t, []string{"limits of z99.large in eu-west-1"}, ec2.asked)

	f, warnings, _, err = gather(t, i, &table{err: errors.New("not authorized")}, Wants{Limits: true})
	require.NoError(t, err)
	assert.Equal(t, DefaultMaxPods, f.MaxPods())
	assert.Equal(t, []string{"the instance type z99.large is unknown, so the node takes 110 pods: not authorized"}, warnings)
}

func TestSizesOfTypesComeFromEC2(t *testing.T) {
	ec2 := &table{limits: Limits{3, 10, 2, 8192}}
	f, warnings, _, err := gather(t, imdstest.Typical(), ec2, Wants{Limits: true, Size: true})
	require.NoError(t, err)
	assert.Empty(t, warnings)
	assert.Equal(t, Limits{3, 10, 2, 8192}, f.Limits)
	assert.Equal(t, []string{"limits of m5.large in eu-west-1"}, ec2.asked)

	f, warnings, _, err = gather(t, imdstest.Typical(), &table{err: errors.New("not authorized")}, Wants{Limits: true, Size: true})
	require.NoError(t, err)
	assert.Equal(t, []string{"the size of the instance type m5.large is unknown: not authorized"}, warnings)
	assert.Equal(t, 29, f.MaxPods(), "the built-in table has the other limits")
}

func TestMissingMetadataIsNamed(t *testing.T) {
	i := imdstest.Typical()
	_, _, _, err := gather(t, i, &table{}, Wants{IPv6: true})
	assert.ErrorContains(t, err, "the cluster is IPv6, but the instance's primary interface has no IPv6 address")
	i.IPv4 = "x"
	_, _, _, err = gather(t, i, &table{}, Wants{})
	assert.EqualError(t, err, `the metadata entry meta-data/local-ipv4 is not an address: "x"`)
	i = imdstest.Typical()
	i.Hostname = ""
	_, _, _, err = gather(t, i, &table{err: errors.New("denied")}, Wants{PrivateDNSName: true})
	assert.EqualError(t, err, "requesting the instance's private DNS name, which is the node's name, from EC2: denied")
}
