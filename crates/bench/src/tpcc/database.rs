//! The tables: how many rows they have, their keys, and what the generator remembers of them.

use crate::error::BenchError;
use crate::random::Random;

/// Districts of a warehouse.
pub(super) const DISTRICT_COUNT: u64 = 10;
/// Warehouses that a key can name.
const WAREHOUSE_COUNT_MAX: u64 = 1 << 12;
/// Rows of a standard warehouse and of the items, about.
const STANDARD_ROW_COUNT: u64 = 560_000;
/// Rows of the standard tables.
const STANDARD_ITEM_COUNT: u64 = 100_000;
const STANDARD_CUSTOMER_COUNT: u64 = 3_000;
/// Last names; each customer has one.
const NAME_COUNT: u64 = 1_000;
/// Orders that are not delivered at first, in percent.
const UNDELIVERED_PERCENT: u64 = 30;
/// Orders above all others.
const ORDER_COUNT_MAX: u64 = 1 << 24;

/// The tables, as the highest bits of a key have them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Table {
    Warehouse = 1,
    District,
    Customer,
    CustomerName,
    Order,
    OrderOfCustomer,
    NewOrder,
    OrderLine,
    Item,
    Stock,
    History,
}

/// One district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DistrictId {
    pub warehouse: u64,
    pub district: u64,
}

impl DistrictId {
    /// The key of a row.
    pub fn key(self, table: Table, row: u64) -> u64 {
        debug_assert!(row < 1 << 40);
        (table as u64) << 60 | self.warehouse << 48 | self.district << 40 | row
    }

    pub fn order_of_customer(self, customer: u64, order: u64) -> u64 {
        self.key(Table::OrderOfCustomer, customer << 24 | (ORDER_COUNT_MAX - 1 - order))
    }

    pub fn order_line(self, order: u64, line: usize) -> u64 {
        self.key(Table::OrderLine, order << 4 | line as u64)
    }

    pub fn customer_name(self, name: u64, customer: u64) -> u64 {
        self.key(Table::CustomerName, name << 20 | customer)
    }
}

/// An order.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub customer: u64,
    /// The item of each line.
    pub items: Vec<u32>,
}

/// What is known of a district.
#[derive(Clone, Debug, Default)]
pub(super) struct District {
    pub orders: Vec<Order>,
    /// The oldest order that is not delivered; all after it are not, either.
    pub undelivered: usize,
    /// The latest order of each customer.
    pub latest: Vec<usize>,
    /// Payments.
    pub history: u64,
}

/// All tables.
pub(super) struct Database {
    pub warehouse_count: u64,
    pub item_count: u64,
    /// Customers of a district.
    pub customer_count: u64,
    pub name_count: u64,
    districts: Vec<District>,
}

impl Database {
    /// About `keys` rows, in at least one warehouse for each thread.
    pub fn new(keys: u64, threads: usize, seed: u64) -> Result<Self, BenchError> {
        let warehouse_count =
            (keys / (STANDARD_ROW_COUNT + STANDARD_ITEM_COUNT)).max(threads as u64);
        if warehouse_count > WAREHOUSE_COUNT_MAX {
            return Err(BenchError::Settings(format!(
                "TPC-C has at most {WAREHOUSE_COUNT_MAX} warehouses here: choose fewer keys or \
                 threads"
            )));
        }
        let standard = (warehouse_count * STANDARD_ROW_COUNT + STANDARD_ITEM_COUNT) as f64;
        let scale = (keys as f64 / standard).min(1.0);
        let scaled = |standard: u64, least: u64| ((standard as f64 * scale) as u64).max(least);
        let customer_count = scaled(STANDARD_CUSTOMER_COUNT, 3);
        let mut database = Database {
            warehouse_count,
            item_count: scaled(STANDARD_ITEM_COUNT, 20),
            customer_count,
            name_count: (customer_count / 3).clamp(1, NAME_COUNT),
            districts: Vec::new(),
        };
        let mut random = Random::new(seed ^ 0x79cc);
        let count = (warehouse_count * DISTRICT_COUNT) as usize;
        database.districts = (0..count).map(|_| database.new_district(&mut random)).collect();
        Ok(database)
    }

    /// Each customer has placed one order.
    fn new_district(&self, random: &mut Random) -> District {
        let count = self.customer_count;
        let order = |customer| Order { customer, items: self.draw_items(random) };
        let orders: Vec<Order> = (0..count).map(order).collect();
        let delivered = count - count * UNDELIVERED_PERCENT / 100;
        let latest = (0..count as usize).collect();
        District { orders, undelivered: delivered as usize, latest, history: count }
    }

    /// The items of five to fifteen lines.
    pub fn draw_items(&self, random: &mut Random) -> Vec<u32> {
        let count = 5 + random.below(11);
        (0..count).map(|_| draw_skewed(random, 8191, self.item_count) as u32).collect()
    }

    pub fn draw_customer(&self, random: &mut Random) -> u64 {
        draw_skewed(random, 1023, self.customer_count)
    }

    /// The last name of a customer.
    pub fn name_of(&self, customer: u64) -> u64 {
        customer % self.name_count
    }

    pub fn district(&mut self, place: DistrictId) -> &mut District {
        &mut self.districts[(place.warehouse * DISTRICT_COUNT + place.district) as usize]
    }

    /// A district of a warehouse that is home to this thread.
    pub fn home(&self, thread: usize, threads: usize, word: u64) -> DistrictId {
        let own = (self.warehouse_count - thread as u64).div_ceil(threads as u64);
        let warehouse = thread as u64 + (word >> 32) % own * threads as u64;
        DistrictId { warehouse, district: word % DISTRICT_COUNT }
    }

    /// The keys of all rows that are there at first.
    pub fn rows(&self) -> Vec<u64> {
        let mut rows = Vec::new();
        let everywhere = DistrictId { warehouse: 0, district: 0 };
        rows.extend((0..self.item_count).map(|item| everywhere.key(Table::Item, item)));
        for warehouse in 0..self.warehouse_count {
            let place = DistrictId { warehouse, district: 0 };
            rows.push(place.key(Table::Warehouse, 0));
            rows.extend((0..self.item_count).map(|item| place.key(Table::Stock, item)));
            for district in 0..DISTRICT_COUNT {
                self.add_rows(DistrictId { warehouse, district }, &mut rows);
            }
        }
        rows
    }

    fn add_rows(&self, place: DistrictId, rows: &mut Vec<u64>) {
        rows.push(place.key(Table::District, 0));
        for customer in 0..self.customer_count {
            rows.push(place.key(Table::Customer, customer));
            rows.push(place.customer_name(self.name_of(customer), customer));
            rows.push(place.key(Table::History, customer));
        }
        let district =
            &self.districts[(place.warehouse * DISTRICT_COUNT + place.district) as usize];
        for (number, order) in district.orders.iter().enumerate() {
            rows.push(place.key(Table::Order, number as u64));
            rows.push(place.order_of_customer(order.customer, number as u64));
            rows.extend((0..order.items.len()).map(|line| place.order_line(number as u64, line)));
            if number >= district.undelivered {
                rows.push(place.key(Table::NewOrder, number as u64));
            }
        }
    }
}

/// The skewed numbers of the standard, in `0..count`: some bits are more often one than zero.
fn draw_skewed(random: &mut Random, mask: u64, count: u64) -> u64 {
    let bits = random.below(mask + 1);
    (bits | random.below(count)) % count
}
