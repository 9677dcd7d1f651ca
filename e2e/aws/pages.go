//go:build linux

package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// tokens are the services' names for the token of the next page.
var tokens = []string{"NextToken", "Marker", "nextToken"}

// takeToken removes the page token from a request. The request then asks for
// the whole list.
func takeToken(in *http.Request) (token string) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return ""
	}
	query := in.URL.Query()
	document := map[string]any{}
	if json.Unmarshal(body, &document) == nil {
		for _, name := range tokens {
			if text, there := document[name].(string); there {
				token = text
			}
			delete(document, name)
		}
		body, _ = json.Marshal(document) // a decoded value can be encoded
	} else if form, err := url.ParseQuery(string(body)); err == nil {
		token = take(form)
		body = []byte(form.Encode())
	}
	if from := take(query); from != "" {
		token = from
		in.URL.RawQuery = query.Encode()
	}
	in.Body = io.NopCloser(bytes.NewReader(body))
	in.ContentLength = int64(len(body))
	return token
}

func take(values url.Values) (token string) {
	for _, name := range tokens {
		if values.Has(name) {
			token = values.Get(name)
		}
		values.Del(name)
	}
	return token
}

// page returns one page of a response with one list, and the token of the next
// page.
func page(text []byte, token string, size int) []byte {
	from, _ := strconv.Atoi(token) // no token means the first page
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return pageJSON(text, from, size)
	}
	ends, last := items(text)
	if len(ends) == 0 {
		return text
	}
	to := min(from+size, len(ends)-1)
	var out bytes.Buffer
	out.Write(text[:ends[0]])
	out.Write(text[ends[min(from, to)]:ends[to]])
	out.Write(text[ends[len(ends)-1]:last])
	if to == len(ends)-1 {
		out.Write(text[last:])
		return out.Bytes()
	}
	for _, name := range tokens {
		out.WriteString("<" + name + ">" + strconv.Itoa(to) + "</" + name + ">")
	}
	out.Write(text[last:])
	return bytes.Replace(out.Bytes(), []byte("<IsTruncated>false<"), []byte("<IsTruncated>true<"), 1)
}

// items returns where each item of the first list begins, where the last item
// ends, and where the list ends.
func items(text []byte) (ends []int64, last int64) {
	decoder := xml.NewDecoder(bytes.NewReader(text))
	depth, list := 0, 0
	for {
		at := decoder.InputOffset()
		token, err := decoder.Token()
		if err != nil {
			return nil, 0
		}
		switch token := token.(type) {
		case xml.StartElement:
			depth++
			if list == 0 && (token.Name.Local == "item" || token.Name.Local == "member") {
				list = depth - 1
				ends = append(ends, at)
			}
		case xml.EndElement:
			depth--
			if list > 0 && depth == list {
				ends = append(ends, decoder.InputOffset())
			}
			if list > 0 && depth == list-1 {
				return ends, decoder.InputOffset()
			}
		}
	}
}

func pageJSON(text []byte, from, size int) []byte {
	var document map[string]any
	if json.Unmarshal(text, &document) != nil {
		return text
	}
	for name, value := range document {
		list, isList := value.([]any)
		if !isList {
			continue
		}
		to := min(from+size, len(list))
		document[name] = list[min(from, to):to]
		if to < len(list) {
			document["nextToken"], document["NextToken"] = strconv.Itoa(to), strconv.Itoa(to)
		}
		break
	}
	text, _ = json.Marshal(document) // a decoded value can be encoded
	return text
}

// Parameter is a parameter of SSM.
type Parameter struct {
	Value, Type, DataType string
	// Version counts how often the parameter was put.
	Version int
}

// Parameter reads a parameter. A missing parameter has an empty value.
func (w *World) Parameter(region, name string) Parameter {
	w.t.Helper()
	var out struct{ Parameters []Parameter }
	require.NoError(w.t, json.Unmarshal(w.DoIn(region, "ssm:GetParameters", `{"Names":["`+name+`"]}`), &out))
	if len(out.Parameters) == 0 {
		return Parameter{}
	}
	return out.Parameters[0]
}

// Put writes a parameter of type String.
func (w *World) Put(name, value string) {
	w.t.Helper()
	w.PutIn(w.region(), name, value)
}

// PutIn writes a parameter of type String in a region.
func (w *World) PutIn(region, name, value string) {
	w.t.Helper()
	text, err := json.Marshal(object{"Name": name, "Value": value, "Type": "String", "Overwrite": true})
	require.NoError(w.t, err)
	w.DoIn(region, "ssm:PutParameter", string(text))
}

// put is a value that reads do not return yet.
type put struct {
	reads int
	call  endpoint.Call
}

func (w *World) getParameter(ctx context.Context, call endpoint.Call, in struct {
	Name           string
	WithDecryption bool
}) (any, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	key := call.Region + " " + in.Name
	switch one := w.front.puts[key]; {
	case one == nil:
	case one.reads > 0:
		one.reads--
	default:
		delete(w.front.puts, key)
		if _, err := w.forward(w.ctx, one.call); err != nil {
			return nil, err
		}
	}
	// moto reserves AWS's own names.
	if value, public := w.Published[in.Name]; public {
		return object{"Parameter": object{"Name": in.Name, "Type": "String", "Value": value, "Version": 1, "DataType": "text"}}, nil
	}
	return w.forward(ctx, call)
}

var imageID = regexp.MustCompile(`^ami-[0-9a-f]{8,17}$`)

// putParameter checks image ids, as SSM does before the parameter can be read.
// moto accepts any text.
func (w *World) putParameter(ctx context.Context, call endpoint.Call, in struct {
	Name, Value, Type, DataType, Description, Tier string
	Overwrite                                      bool
}) (any, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if in.DataType != "aws:ec2:image" {
		return w.forward(ctx, call)
	}
	if !imageID.MatchString(in.Value) {
		return nil, endpoint.Fail("ValidationException", "%q is not an image id", in.Value)
	}
	if w.front.Stale == 0 {
		return w.forward(ctx, call)
	}
	w.front.puts[call.Region+" "+in.Name] = &put{w.front.Stale, call}
	return object{"Version": 2, "Tier": "Standard"}, nil
}

type blockOut struct {
	State string `xml:"imageBlockPublicAccessState"`
	By    string `xml:"managedBy"`
}

func (w *World) blockPublic(region string, _ struct{}) (blockOut, error) {
	if by := w.BlockPublic[region]; by != "" {
		return blockOut{"block-new-sharing", by}, nil
	}
	return blockOut{"unblocked", "account"}, nil
}

// defaultLimits are AWS's defaults by code
// (https://docs.aws.amazon.com/general/latest/gr/ec2-service.html,
// https://docs.aws.amazon.com/general/latest/gr/ebs-service.html).
var defaultLimits = map[string]int{"ec2 L-B665C33B": 50000, "ec2 L-0E3CBAB9": 5, "ebs L-309BACF6": 100000,
	"ec2 L-1216C47A": 5}

type quotaIn struct{ ServiceCode, QuotaCode string }

type quotaOut struct {
	Quota struct{ Value int }
}

// quota knows only limits that were raised: Service Quotas has no applied value of some
// quotas (https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html).
func (w *World) quota(_ string, in quotaIn) (out quotaOut, err error) {
	limit, applied := w.Limits[in.QuotaCode]
	if !applied {
		return out, endpoint.Fail("NoSuchResourceException", "The request failed because the specified service quota does not exist.")
	}
	out.Quota.Value = limit
	return out, nil
}

// raiseQuota grants at once what AWS decides later.
func (w *World) raiseQuota(_ string, in struct {
	quotaIn
	DesiredValue float64
}) (out struct{ RequestedQuota struct{ Status string } }, err error) {
	if w.Limits == nil {
		w.Limits = map[string]int{}
	}
	w.Limits[in.QuotaCode] = int(in.DesiredValue)
	out.RequestedQuota.Status = "APPROVED"
	return out, nil
}

func (w *World) defaultQuota(_ string, in quotaIn) (out quotaOut, err error) {
	limit, known := defaultLimits[in.ServiceCode+" "+in.QuotaCode]
	if !known {
		return out, endpoint.Fail("NoSuchResourceException", "The request failed because the specified service quota does not exist.")
	}
	out.Quota.Value = limit
	return out, nil
}

type planOut struct {
	AccountID   string `json:"accountId"`
	PlanStatus  string `json:"accountPlanStatus"`
	AccountPlan string `json:"accountPlanType"`
}

func (w *World) plan(string, struct{}) (planOut, error) {
	if w.Plan == "" {
		return planOut{}, endpoint.Fail("ResourceNotFoundException", "The account has no plan.")
	}
	return planOut{"123456789012", "ACTIVE", w.Plan}, nil
}
