package awsapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzExplain explains errors with any code, reason and message: the text is printable
// and bounded.
func FuzzExplain(f *testing.F) {
	for _, seed := range [][3]string{
		{"AccessDeniedException", "DEPENDENCY_ACCESS_DENIED", "User: x is not authorized to perform: kms:CreateGrant on resource: y"},
		{"AccessDeniedException", "UNAUTHORIZED_ACCOUNT", "no"}, {"AccessDeniedException", "", ""},
		{"UnauthorizedOperation", "", "You are not authorized to perform this operation. Encoded authorization failure message: AAAA"},
		{"ValidationException", "INVALID_CUSTOMER_KEY", "a\x1b[31mb\n"}, {"ServiceQuotaExceededException", "DEPENDENCY_SERVICE_QUOTA_EXCEEDED", "."},
		{"ThrottlingException", "", "\xff"}, {"ResourceNotFoundException", "DEPENDENCY_RESOURCE_NOT_FOUND", "\u202e"},
	} {
		for n := range 3 {
			f.Add("EBS", "StartSnapshot", n, seed[0], seed[1], seed[2])
		}
	}
	f.Add("EC2", "RegisterImage", 3, "InvalidAMIName.Duplicate", "", "AMI name x is already in use")
	f.Fuzz(func(t *testing.T, service, operation string, kind int, code, reason, message string) {
		if len(service)+len(operation)+len(code) > 1000 {
			return
		}
		var failure error = &smithy.GenericAPIError{Code: code, Message: message}
		switch kind {
		case 0:
			failure = &ebstypes.AccessDeniedException{Message: &message, Reason: ebstypes.AccessDeniedExceptionReason(reason)}
		case 1:
			failure = &ebstypes.ValidationException{Message: &message, Reason: ebstypes.ValidationExceptionReason(reason), ErrorCodeOverride: aws.String(code)}
		case 2:
			failure = &ebstypes.ResourceNotFoundException{Message: &message, Reason: ebstypes.ResourceNotFoundExceptionReason(reason)}
		}
		text := explain("doing", &smithy.OperationError{ServiceID: service, OperationName: operation, Err: failure}).Error()
		assert.LessOrEqual(t, utf8.RuneCountInString(text), saidMost+4000)
		for _, r := range text[len("doing: "):] {
			assert.True(t, unicode.IsPrint(r), "%q", text)
		}
	})
}

func TestThrottlingSlowsAllCallsDown(t *testing.T) {
	p, now := newPacer(retry.NewStandard()), time.Unix(1e9, 0)
	for _, code := range []string{"RequestThrottledException", "ThrottlingException", "ConcurrentLimitExceededException", "ServiceQuotaExceededException"} {
		before := p.limit.Limit()
		now = now.Add(time.Second)
		for range 32 { // calls at the same time
			p.ended(&smithy.GenericAPIError{Code: code}, now)
		}
		require.InEpsilon(t, 0.7*float64(before), float64(p.limit.Limit()), 1e-9, code)
	}
	slow := p.limit.Limit()
	p.ended(&smithy.GenericAPIError{Code: "InternalServerException"}, now)
	p.ended(errors.New("connection reset"), now)
	require.Equal(t, slow, p.limit.Limit())
	for range int(slow) { // a second
		p.ended(nil, now)
	}
	require.InDelta(t, float64(slow)+speedUp, float64(p.limit.Limit()), 1)
	for range 1_000_000 {
		p.ended(nil, now)
	}
	require.EqualValues(t, mostCalls, p.limit.Limit())
	for range 100 {
		now = now.Add(time.Second)
		p.ended(&smithy.GenericAPIError{Code: "RequestThrottledException"}, now)
	}
	require.EqualValues(t, leastCalls, p.limit.Limit())
}

func TestRecordsMatchNames(t *testing.T) {
	const name = "ec2.eu-west-1.amazonaws.com"
	for record, want := range map[string]bool{
		name + ".": true, "EC2.eu-west-1.amazonaws.com.": true, `\052.eu-west-1.amazonaws.com.`: true, "*.amazonaws.com": true,
		"amazonaws.com.": false, `\052.us-east-1.amazonaws.com.`: false, "*.ec2.eu-west-1.amazonaws.com.": false, "": false,
	} {
		assert.Equal(t, want, recordMatches(record, name), record)
	}
}

// A subnet's own route table wins over the VPC's main table, and a table of another
// account is not shown.
func TestRoutesOfSubnets(t *testing.T) {
	table := func(id string, of types.RouteTableAssociation, routes ...types.Route) types.RouteTable {
		return types.RouteTable{RouteTableId: aws.String(id), Associations: []types.RouteTableAssociation{of}, Routes: routes}
	}
	all := []types.RouteTable{
		table("rtb-main", types.RouteTableAssociation{Main: aws.Bool(true)},
			types.Route{DestinationCidrBlock: aws.String("10.0.0.0/16"), GatewayId: aws.String("local"), State: types.RouteStateActive},
			types.Route{DestinationIpv6CidrBlock: aws.String("::/0"), EgressOnlyInternetGatewayId: aws.String("eigw-1"), State: types.RouteStateBlackhole}),
		table("rtb-1", types.RouteTableAssociation{SubnetId: aws.String("subnet-1")},
			types.Route{DestinationCidrBlock: aws.String("0.0.0.0/0"), VpcPeeringConnectionId: aws.String("pcx-1"), State: types.RouteStateActive},
			types.Route{DestinationPrefixListId: aws.String("pl-1"), State: types.RouteStateActive}),
	}
	id, routes := routesOf(all, "subnet-1")
	assert.Equal(t, "rtb-1", id)
	assert.Equal(t, []Route{{"0.0.0.0/0", "pcx-1", false}, {"pl-1", "", true}}, routes)
	id, routes = routesOf(all, "subnet-2")
	assert.Equal(t, "rtb-main", id)
	assert.Equal(t, []Route{{"::/0", "eigw-1", true}}, routes)
	id, routes = routesOf(all[1:], "subnet-2")
	assert.Empty(t, id)
	assert.Nil(t, routes)
}

func TestAllBuildsGroupsCopies(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	marks := map[string]string{"eksnode:distro": "debian", "other": "x"}
	image := func(region, id string, made int, change ...func(*Image)) Image {
		i := Image{Region: region, ID: id, Name: id, Owner: "1", Architecture: "x86_64", Created: day(made)}
		for _, c := range change {
			c(&i)
		}
		return i
	}
	of := func(region, id string) func(*Image) { return func(i *Image) { i.SourceRegion, i.Source = region, id } }
	marked := func(name string) func(*Image) { return func(i *Image) { i.Name, i.Tags = name, marks } }
	arm := func(i *Image) { i.Architecture = "arm64" }
	for name, c := range map[string]struct {
		images []Image
		want   [][]string
	}{
		"none":                 {nil, nil},
		"separate":             {[]Image{image("r", "a", 1), image("r", "b", 2)}, [][]string{{"b"}, {"a"}}},
		"a copy":               {[]Image{image("r", "a", 1), image("s", "b", 2, of("r", "a"))}, [][]string{{"b", "a"}}},
		"a copy of a copy":     {[]Image{image("t", "c", 3, of("s", "b")), image("r", "a", 1), image("s", "b", 2, of("r", "a"))}, [][]string{{"c", "b", "a"}}},
		"a source that's gone": {[]Image{image("r", "a", 1, of("r", "x")), image("s", "b", 2, of("r", "x"))}, [][]string{{"b", "a"}}},
		"the same id":          {[]Image{image("r", "a", 1), image("s", "b", 2, of("s", "a"))}, [][]string{{"b"}, {"a"}}},
		"alike":                {[]Image{image("r", "a", 1, marked("n")), image("s", "b", 2, marked("n"))}, [][]string{{"b", "a"}}},
		"alike without marks":  {[]Image{image("r", "a", 1), image("s", "a", 2)}, [][]string{{"a"}, {"a"}}},
		"another name":         {[]Image{image("r", "a", 1, marked("n")), image("s", "b", 2, marked("m"))}, [][]string{{"b"}, {"a"}}},
		"another processor":    {[]Image{image("r", "a", 1, marked("n")), image("s", "b", 2, marked("n"), arm)}, [][]string{{"b"}, {"a"}}},
		"a copy made later": {[]Image{image("r", "a", 1), image("r", "b", 2), image("s", "c", 3, of("r", "a"))},
			[][]string{{"b"}, {"c", "a"}}},
		"sources in a circle": {[]Image{image("r", "a", 1, of("r", "b")), image("r", "b", 2, of("r", "a"))}, [][]string{{"b", "a"}}},
		"undated":             {[]Image{image("r", "a", 1), {Region: "s", ID: "b", Source: "a", SourceRegion: "r"}}, [][]string{{"a", "b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got [][]string
			for _, b := range AllBuilds(c.images) {
				var ids []string
				for _, i := range b {
					ids = append(ids, i.ID)
				}
				got = append(got, ids)
			}
			assert.Equal(t, c.want, got)
		})
	}
	builds := NodeBuilds([]Image{image("r", "a", 1, marked("n")), image("s", "b", 2, of("r", "a")), image("r", "c", 3)})
	assert.Len(t, builds, 1, "the build of an untagged copy")
	assert.Equal(t, map[string]string{"distro": "debian"}, builds[0].Marks())
	assert.Equal(t, day(1), builds[0].Made())
}

// Sources come from EC2 and may form any graph.
func FuzzAllBuilds(f *testing.F) {
	f.Add("a>b b>c c>a d>d e>x f>x")
	f.Add("a>a a>b b>a")
	f.Fuzz(func(t *testing.T, graph string) {
		var images []Image
		for n, edge := range strings.Fields(graph) {
			id, source, _ := strings.Cut(edge, ">")
			images = append(images, Image{Region: "r", ID: fmt.Sprint(id, n%3), Source: source, SourceRegion: "r", Tags: map[string]string{"eksnode:x": source}})
		}
		all := AllBuilds(images)
		count := 0
		for _, b := range all {
			assert.NotEmpty(t, b)
			count += len(b)
		}
		assert.Equal(t, len(images), count, "each image is in one build")
	})
}

// An account may have a quota of zero.
func TestAFullQuotaSaysHowToRequestMore(t *testing.T) {
	for limit, desired := range map[int]string{0: "1", 5: "10"} {
		assert.ErrorContains(t, Quota{Limit: limit}.Full("eu-west-1"), " --desired-value "+desired+"`")
	}
}
