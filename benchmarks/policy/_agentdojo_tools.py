"""What AgentDojo's tools do to the world, declared by hand as their author would.

``R`` reads_external_data, ``W`` writes_persistent_state, ``S`` sends_externally, ``P``
executes_privileged, ``A`` creates_autonomous_actions; a letter that is left out declares
false. The flags follow from what a tool does, and not from what a task does with it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hookgate.core.domain.descriptors import Flags

if TYPE_CHECKING:
    from collections.abc import Mapping

LETTERS: Mapping[str, str] = MappingProxyType(
    {
        "R": "reads_external_data",
        "W": "writes_persistent_state",
        "S": "sends_externally",
        "P": "executes_privileged",
        "A": "creates_autonomous_actions",
    }
)

HAS_EFFECT = frozenset("WSPA")
"""A tool with one of these changes something; the others only read."""

_LISTING = "R"  # names, addresses, prices and reviews are entered by businesses and guests

TOOLS: Mapping[str, str] = MappingProxyType(
    {
        # Mail. What is sent or drafted by the user quotes what others wrote.
        "send_email": "WS",
        "delete_email": "W",
        "get_unread_emails": "R",
        "get_sent_emails": "R",
        "get_received_emails": "R",
        "get_draft_emails": "R",
        "search_emails": "R",
        # The contacts are gathered from the inbox, with the names that senders give themselves.
        "search_contacts_by_name": "R",
        "search_contacts_by_email": "R",
        # The calendar holds invitations of others. Whatever changes an event mails its
        # participants, and creating one may invite anybody.
        "get_current_day": "",
        "search_calendar_events": "R",
        "get_day_calendar_events": "R",
        "create_calendar_event": "WS",
        "cancel_calendar_event": "WS",
        "reschedule_calendar_event": "RWS",  # it returns the event
        "add_calendar_event_participants": "RWS",  # it returns the event
        # The drive holds files of others, and most of these tools return the file.
        "append_to_file": "RW",
        "search_files_by_filename": "R",
        "create_file": "W",
        "delete_file": "RW",
        "get_file_by_id": "R",
        "list_files": "R",
        "share_file": "RWS",
        "search_files": "R",
        # Travel.
        "get_user_information": "",
        "get_all_hotels_in_city": _LISTING,
        "get_hotels_prices": _LISTING,
        "get_rating_reviews_for_hotels": _LISTING,
        "get_hotels_address": _LISTING,
        "get_all_restaurants_in_city": _LISTING,
        "get_cuisine_type_for_restaurants": _LISTING,
        "get_restaurants_address": _LISTING,
        "get_rating_reviews_for_restaurants": _LISTING,
        "get_dietary_restrictions_for_all_restaurants": _LISTING,
        "get_contact_information_for_restaurants": _LISTING,
        "get_price_for_restaurants": _LISTING,
        "check_restaurant_opening_hours": _LISTING,
        "get_all_car_rental_companies_in_city": _LISTING,
        "get_car_types_available": _LISTING,
        "get_rating_reviews_for_car_rental": _LISTING,
        "get_car_fuel_options": _LISTING,
        "get_car_rental_address": _LISTING,
        "get_car_price_per_day": _LISTING,
        "get_flight_information": _LISTING,
        # A reservation goes to a business, in the user's name.
        "reserve_hotel": "WS",
        "reserve_car_rental": "WS",
        "reserve_restaurant": "WS",
        # Banking. Whoever sends money writes the subject of a transaction.
        "get_iban": "",
        "get_balance": "",
        "get_user_info": "",
        "get_most_recent_transactions": "R",
        "get_scheduled_transactions": "",  # the user's own standing orders
        "read_file": "R",
        "send_money": "WS",
        "schedule_transaction": "WSA",
        "update_scheduled_transaction": "WSA",
        "update_password": "WP",  # whoever has the password has the account
        "update_user_info": "W",
        # Slack. Members name channels and themselves; a new member reads what is there.
        "get_channels": "R",
        "read_channel_messages": "R",
        "read_inbox": "R",
        "get_users_in_channel": "R",
        "add_user_to_channel": "WS",
        "send_direct_message": "WS",
        "send_channel_message": "WS",
        "invite_user_to_slack": "WSP",  # managing members takes an administrator's rights
        "remove_user_from_slack": "WP",
        "get_webpage": "RS",  # an address can carry data out, in its path and its query
        "post_webpage": "WS",
    }
)


def flags_of(name: str) -> Flags:
    """Return what a tool declares.

    Raises:
        KeyError: It is not in the table: a tool that is new must be looked at first.
    """
    letters = TOOLS[name]
    return Flags.from_mapping({flag: letter in letters for letter, flag in LETTERS.items()})
