//go:build linux

package aws

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// paged lists the actions whose responses AWS may split into pages. moto
// returns most lists whole.
var paged = map[string]bool{
	"DescribeImages": true, "DescribeInstances": true, "DescribeVpcEndpoints": true, "DescribeNetworkAcls": true, "DescribeRouteTables": true, "DescribeNatGateways": true, "DescribeLaunchTemplates": true,
	"DescribeFleets": true, "DescribeSpotFleetRequests": true, "DescribeSpotInstanceRequests": true,
	"DescribeAutoScalingGroups": true, "DescribeLaunchConfigurations": true, "ListAttachedRolePolicies": true,
	"ListPodIdentityAssociations": true, "SimulatePrincipalPolicy": true,
	"ListClusters": true, "ListNodegroups": true, "ListAddons": true, "DescribeParameters": true, "GetParameterHistory": true,
}

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
